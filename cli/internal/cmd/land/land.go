// Package land is the command `agentbox land`.
package land

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
)

// Options are the options of land.
type Options struct {
	Streams *streams.Streams
	Box     func(ref string) (core.Box, error)
	// Relay makes sure that somebody takes the commits in.
	Relay func(ctx context.Context) (factory.Relay, error)
	Land  func(ctx context.Context, box core.Box, w io.Writer) (code int, err error)

	Ref string
}

// New parses the command line of land.
func New(f *factory.Factory, land func(context.Context, core.Box, io.Writer) (int, error), run func(context.Context, *Options) error) *cli.Command {
	o := &Options{Streams: f.Streams, Box: f.Box, Relay: f.Relay, Land: land}
	return &cli.Command{
		Name:        "land",
		Usage:       "land a box's commits now, and say what became of them",
		ArgsUsage:   "[box]",
		Description: "Commits land by themselves within moments; this waits for it.",
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Words(c, f, 0, 1); err != nil {
				return err
			}
			o.Ref = c.Args().First()
			return run(ctx, o)
		},
	}
}

// Run lets the box hand in its commits and passes its words on.
func Run(ctx context.Context, o *Options) error {
	box, err := o.Box(o.Ref)
	if err != nil {
		return err
	}
	if _, err := o.Relay(ctx); err != nil {
		return err
	}
	o.Streams.Note("box %s says:", box.Name)
	lines := output.NewLines(o.Streams.Out)
	code, err := o.Land(ctx, box, lines)
	if err != nil {
		return err
	}
	if err := lines.Close(); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return fail.Exited(code)
}
