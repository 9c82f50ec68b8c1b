// Command gitremote serves bare repositories over smart HTTP with basic auth.
// It prints its address once it listens, and ends on SIGTERM after running
// pushes are through.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/madarco/agentbox/e2e/gitremote"
	"github.com/madarco/agentbox/e2e/standalone"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gitremote:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("gitremote", flag.ContinueOnError)
	root := flags.String("root", "", "folder of the bare repositories")
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on")
	create := flags.String("create", "", "repository to make if it is missing, such as project.git")
	user := flags.String("user", "git", "user that basic auth asks for")
	passwordFile := flags.String("password-file", "", "file that holds the password")
	urlFile := flags.String("url-file", "", "file that receives the address, for who does not read the output")
	logFile := flags.String("log", "", "file that receives each request as a line of JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	password, err := os.ReadFile(*passwordFile)
	if err != nil {
		return fmt.Errorf("read the password: %w", err)
	}
	log, err := os.OpenFile(*logFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the request log: %w", err)
	}
	defer log.Close()
	remote := gitremote.New(gitremote.Options{Root: *root, User: *user, Password: strings.TrimSpace(string(password)), Log: log})
	if err := remote.Create(ctx, *create); err != nil {
		return err
	}
	listener, err := standalone.Listen(ctx, *listen, *urlFile)
	if err != nil {
		return err
	}
	err = standalone.Serve(ctx, listener, remote, time.Minute)
	remote.Close() // waits for pushes whose client has gone
	return err
}
