package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	bin       string
	gitremote string
	only      string
	rounds    int
	large     int
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.bin, "bin", "bin", "folder of the built programs")
	flags.StringVar(&o.gitremote, "gitremote", "", "program that serves the remote")
	flags.StringVar(&o.only, "only", "", "one of startup, boxes, push")
	flags.IntVar(&o.rounds, "rounds", 20, "how often a box is made, a commit lands, a push goes out; start-up ten times as often")
	flags.IntVar(&o.large, "large", 0, "also push a pack of so many MB, once each way")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return err
	}
	var rows []row
	if o.only == "" || o.only == "startup" {
		found, err := startup(ctx, o)
		if err != nil {
			return fmt.Errorf("measure start-up: %w", err)
		}
		rows = append(rows, found...)
	}
	var notes []string
	if o.only != "startup" {
		found, said, err := boxes(ctx, o)
		if err != nil {
			return fmt.Errorf("measure boxes: %w", err)
		}
		rows, notes = append(rows, found...), said
	}
	if err := printTable(out, rows); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, strings.Join(notes, "\n"))
	return err
}
