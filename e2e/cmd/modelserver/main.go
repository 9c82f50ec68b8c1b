// Command modelserver plays scripts to coding agents that take it for their
// model. It writes its address to a file once it listens; below that address
// every script has the path that is its file's name without .json. It ends on
// SIGTERM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/madarco/agentbox/e2e/modelserver"
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
	urlFile := flags.String("url-file", "", "file that receives the address; else it goes to standard output")
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
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	if err := publish(*urlFile, "http://"+listener.Addr().String()); err != nil {
		return errors.Join(err, listener.Close())
	}
	return serve(ctx, listener, server)
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

// publish lets a reader of the file see the whole address or none.
func publish(file, url string) error {
	if file == "" {
		_, err := fmt.Println(url)
		return err
	}
	if err := os.WriteFile(file+".new", []byte(url+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		stopped <- server.Shutdown(end)
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	return <-stopped
}
