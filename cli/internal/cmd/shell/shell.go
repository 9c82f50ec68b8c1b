// Package shell is the command `agentbox shell`: a terminal, or one command, in
// a box.
package shell

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/session"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

// Options are the options of shell.
type Options struct {
	Streams  *streams.Streams
	Box      func(ref string) (core.Box, error)
	Provider func(name string) (provider.Provider, error)
	// Wake brings a box that does not run back.
	Wake func(ctx context.Context, box core.Box) error

	Ref     string
	Command []string
}

// New parses the command line of shell.
func New(f *factory.Factory, wake func(context.Context, core.Box) error, run func(context.Context, *Options) error) *cli.Command {
	o := &Options{Streams: f.Streams, Box: f.Box, Provider: f.Provider, Wake: wake}
	return &cli.Command{
		Name:      "shell",
		Usage:     "open a terminal in a box, or run one command there",
		ArgsUsage: "[box] [-- command…]",
		Description: "Without a command it opens a login shell. One word behind -- is a line for\n" +
			"that shell; several are a program and its arguments, passed on as they are.\n" +
			"The exit code is that of the command. A box that does not run is started first.",
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() > 1 {
				return fail.Usagef("agentbox shell [box] -- command…", "%s takes one box; a command for it goes behind --", c.FullName())
			}
			if f.HasTail && len(f.Tail) == 0 {
				return fail.Usagef("agentbox shell [box] -- ls -l", "no command behind --")
			}
			o.Ref, o.Command = c.Args().First(), f.Tail
			return run(ctx, o)
		},
	}
}

// Run opens the terminal or runs the command. A code other than zero is
// returned as fail.Exit.
func Run(ctx context.Context, o *Options) error {
	box, err := o.Box(o.Ref)
	if err != nil {
		return err
	}
	p, err := o.Provider(box.Provider)
	if err != nil {
		return err
	}
	state, err := p.State(ctx, box)
	if err != nil {
		return fmt.Errorf("ask for the state of box %s: %w", box.Name, err)
	}
	if state != core.StateRunning {
		if err := o.Wake(ctx, box); err != nil {
			return err
		}
		o.Streams.Note("box %s did not run: started it", box.Name)
	}
	return session.Run(ctx, o.Streams, p, box, o.Command)
}
