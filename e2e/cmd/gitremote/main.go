// Command gitremote serves bare repositories over smart HTTP with basic auth.
// It prints its address once it listens, and ends on SIGTERM after running
// pushes are through.
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
	"strings"
	"syscall"
	"time"

	"github.com/madarco/agentbox/e2e/gitremote"
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
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	url := "http://" + listener.Addr().String()
	if err := publish(*urlFile, url); err != nil {
		return err
	}
	fmt.Println(url)
	return serve(ctx, listener, remote)
}

// publish lets a reader see the whole address or none.
func publish(file, url string) error {
	if file == "" {
		return nil
	}
	if err := os.WriteFile(file+".new", []byte(url+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func serve(ctx context.Context, listener net.Listener, remote *gitremote.Remote) error {
	server := &http.Server{Handler: remote, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := server.Shutdown(end)
	remote.Close()
	if serveErr := <-failed; !errors.Is(serveErr, http.ErrServerClosed) {
		return serveErr
	}
	return err
}
