// Package seed is the command `agentbox seed`: what the host keeps of a project
// for its boxes to read.
package seed

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/relay/budget"
	"github.com/madarco/agentbox/relay/gitgate"
)

// Options are the options of `seed purge`.
type Options struct {
	Streams *streams.Streams
	// Purge drops kept history from the seed store of the repository that the
	// user stands in.
	Purge func(ctx context.Context) (gitgate.Purged, error)
}

// New is the command with its subcommands.
func New(f *factory.Factory, purge func(context.Context) (gitgate.Purged, error), run func(context.Context, *Options) error) *cli.Command {
	o := &Options{Streams: f.Streams, Purge: purge}
	return &cli.Command{
		Name:  "seed",
		Usage: "what the host keeps of this project for its boxes",
		Commands: []*cli.Command{{
			Name:  "purge",
			Usage: "drop history that was kept because a box may have built on it",
			Description: "Branches that were rewritten or removed on the remote stay in the store that\n" +
				"boxes read from. While a box of the project lives nothing is dropped.",
			Action: func(ctx context.Context, c *cli.Command) error {
				if err := args.Words(c, f, 0, 0); err != nil {
					return err
				}
				return run(ctx, o)
			},
		}},
	}
}

// RunPurge drops kept history, and tells how much room that made.
func RunPurge(ctx context.Context, o *Options) error {
	done, err := o.Purge(ctx)
	if errors.Is(err, gitgate.ErrInUse) {
		return &fail.Error{Err: err, Code: fail.Refused, Next: "agentbox list"}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Streams.Out, "seed store: %s, was %s\n", budget.Size(done.After), budget.Size(done.Before))
	return err
}
