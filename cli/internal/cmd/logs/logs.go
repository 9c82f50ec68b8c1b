// Package logs is the command `agentbox logs`: what the first process of a box
// and its daemon print.
//
// Invariant: all of it is the box's text, and passes line by line through
// package output.
package logs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

// Options are the options of logs.
type Options struct {
	Streams  *streams.Streams
	Box      func(ref string) (core.Box, error)
	Provider func(name string) (provider.Provider, error)
	Now      func() time.Time

	Ref string
	// Service names a service of the box, empty for the box itself.
	Service string
	// Lines is how many lines from the end.
	Lines  int
	Since  string
	Follow bool
	// Daemon leaves out what is not of agentbox's own programs in the box.
	Daemon bool
}

// New parses the command line of logs.
func New(f *factory.Factory, run func(context.Context, *Options) error) *cli.Command {
	o := &Options{Streams: f.Streams, Box: f.Box, Provider: f.Provider, Now: f.Now}
	return &cli.Command{
		Name:        "logs",
		Usage:       "show what a box's first process and daemon print",
		ArgsUsage:   "[box]",
		Description: "It is there for a stopped box too. What it shows is the box's text.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "tail", Aliases: []string{"n"}, Usage: "the last `LINES` only", Value: 200, Destination: &o.Lines, Local: true},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until the box stops or you interrupt", Destination: &o.Follow, Local: true},
			&cli.StringFlag{Name: "since", Usage: "leave out what is older than this `TIME`: 10m, or 2026-01-02T15:04:05Z", Destination: &o.Since, Local: true},
			&cli.BoolFlag{Name: "daemon", Usage: "only what agentbox's own programs in the box say", Destination: &o.Daemon, Local: true},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Words(c, f, 0, 2); err != nil {
				return err
			}
			o.Ref, o.Service = c.Args().Get(0), c.Args().Get(1)
			return run(ctx, o)
		},
	}
}

// Run shows the log.
func Run(ctx context.Context, o *Options) error {
	since, err := args.Time(o.Since, o.Now())
	if err != nil {
		return err
	}
	if o.Lines < 0 {
		return fail.Usagef("agentbox logs --help", "%d is no number of lines", o.Lines)
	}
	box, err := o.Box(o.Ref)
	if err != nil {
		return err
	}
	if o.Service != "" {
		return fail.Usagef("agentbox logs "+string(box.Name), "box %s has no service %s; it runs none, and its one log is its own", box.Name, core.Untrusted(o.Service).Quote())
	}
	p, err := o.Provider(box.Provider)
	if err != nil {
		return err
	}
	logger, ok := p.(provider.Logger)
	if !ok {
		return fail.New(fail.Usage, "", "boxes of %s keep no log: %w", p.Name(), provider.ErrUnsupported)
	}
	out, errOut := o.shown(o.Streams.Out), o.shown(o.Streams.ErrOut)
	err = logger.Logs(ctx, box, provider.LogRequest{Tail: o.Lines, Since: since, Follow: o.Follow, Stdout: out, Stderr: errOut})
	if closed := errors.Join(out.Close(), errOut.Close()); err == nil {
		err = closed
	}
	if o.Follow && errors.Is(context.Cause(ctx), fail.ErrInterrupted) {
		return fail.Exit(fail.Interrupted) // that is how following ends
	}
	return err
}

// shown is where lines of the log go.
func (o *Options) shown(w io.Writer) io.WriteCloser {
	if o.Daemon {
		w = ours{w}
	}
	return output.NewLines(w)
}

// ours passes on the lines of agentbox's own programs. It gets whole lines.
type ours struct{ io.Writer }

// mark begins a line of agentbox-ctl.
var mark = []byte("agentbox-ctl ")

func (w ours) Write(line []byte) (int, error) {
	if !bytes.HasPrefix(line, mark) {
		return len(line), nil
	}
	return w.Writer.Write(line)
}
