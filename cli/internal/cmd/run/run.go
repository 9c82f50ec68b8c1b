// Package run is the command `agentbox run`: any command in a box of its own.
package run

import (
	"context"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/cmd/agents"
	"github.com/madarco/agentbox/cli/internal/cmd/create"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/launch"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

// Options are the options of run.
type Options struct {
	launch.Options
	// Make makes a box by Create.
	Make   func(ctx context.Context, o *create.Options) (core.Box, provider.Provider, error)
	Create *create.Options

	Command []string
}

// New parses the command line of run.
func New(f *factory.Factory, made *create.Options, run func(context.Context, *Options) error) *cli.Command {
	o := &Options{Options: launch.Options{Streams: f.Streams, Getenv: os.Getenv}, Make: create.Make, Create: made}
	return &cli.Command{
		Name:      "run",
		Usage:     "run a command in a new box of this project, in a session",
		ArgsUsage: "-- command…",
		Description: "One word behind -- is a line for the box's shell, several are a program and its\n" +
			"arguments, as they are; claude, codex and opencode are started as the commands\n" +
			"of that name do. On a terminal, Ctrl+a d leaves it running and ends with 0; a\n" +
			"command that ends gives its code. Without a terminal it runs on plain streams.",
		DisableSliceFlagSeparator: true,
		Flags:                     append(create.Flags(made), launch.Flags(&o.Options)...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Present() || len(f.Tail) == 0 {
				return fail.Usagef("agentbox run -- make test", "the command goes behind --")
			}
			if err := create.CheckFlags(c, made); err != nil {
				return err
			}
			o.Command = f.Tail
			return run(ctx, o)
		},
	}
}

// Run makes a box and runs the command in it.
func Run(ctx context.Context, o *Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	plan := o.Plan(o.Command)
	if err := o.CheckKey(plan); err != nil {
		return err
	}
	return agents.InNewBox(ctx, o.Create, o.Make, &o.Options, plan)
}
