// Command modelserver plays scripts to coding agents that take it for their
// model. It prints its address once it listens; below that address every script
// has the path that is its file's name without .json. It ends on SIGTERM.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/madarco/agentbox/e2e/modelserver"
	"github.com/madarco/agentbox/e2e/standalone"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "modelserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("modelserver", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: modelserver [flags] SCRIPT.json ...")
		flags.PrintDefaults()
	}
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on")
	urlFile := flags.String("url-file", "", "file that receives the address, for who does not read the output")
	logFile := flags.String("log", "", "file that receives each request as a line of JSON")
	key := flags.String("key", "", "key that agents must send; else any will do")
	if err := flags.Parse(args); err != nil {
		return err
	}
	options := modelserver.Options{Key: *key}
	if *logFile != "" {
		log, err := os.OpenFile(*logFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("open the request log: %w", err)
		}
		defer log.Close()
		options.Log = log
	}
	server := modelserver.New(options)
	for _, file := range flags.Args() {
		if err := add(server, file); err != nil {
			return err
		}
	}
	listener, err := standalone.Listen(ctx, *listen, *urlFile)
	if err != nil {
		return err
	}
	return standalone.Serve(ctx, listener, server, 5*time.Second)
}

func add(server *modelserver.Server, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	script, err := modelserver.ParseScript(f)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return server.Add(strings.TrimSuffix(filepath.Base(file), ".json"), script)
}
