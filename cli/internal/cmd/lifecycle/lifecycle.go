// Package lifecycle is the commands `agentbox start`, `stop` and `destroy`.
package lifecycle

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/boxes"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
)

// Keeper is what the commands need of boxes.Keeper.
type Keeper interface {
	Start(ctx context.Context, box core.Box) error
	Stop(ctx context.Context, box core.Box) ([]boxes.Tip, error)
	Loss(ctx context.Context, box core.Box) ([]boxes.Tip, error)
	Destroy(ctx context.Context, box core.Box) error
}

// Options are the options of start and stop.
type Options struct {
	Streams *streams.Streams
	Box     func(ref string) (core.Box, error)
	Keeper  func() (Keeper, error)

	Ref string
}

// NewStart parses the command line of start.
func NewStart(f *factory.Factory, keeper func() (Keeper, error), run func(context.Context, *Options) error) *cli.Command {
	return verb(f, keeper, run, "start", "bring a box up again; one that runs gets a new token")
}

// NewStop parses the command line of stop.
func NewStop(f *factory.Factory, keeper func() (Keeper, error), run func(context.Context, *Options) error) *cli.Command {
	return verb(f, keeper, run, "stop", "land a box's commits and stop it; its files stay")
}

func verb(f *factory.Factory, keeper func() (Keeper, error), run func(context.Context, *Options) error, name, usage string) *cli.Command {
	o := &Options{Streams: f.Streams, Box: f.Box, Keeper: keeper}
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: "[box]",
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Words(c, f, 0, 1); err != nil {
				return err
			}
			o.Ref = c.Args().First()
			return run(ctx, o)
		},
	}
}

func (o *Options) find() (core.Box, Keeper, error) {
	box, err := o.Box(o.Ref)
	if err != nil {
		return core.Box{}, nil, err
	}
	k, err := o.Keeper()
	return box, k, err
}

// RunStart starts the box.
func RunStart(ctx context.Context, o *Options) error {
	box, k, err := o.find()
	if err != nil {
		return err
	}
	if err := k.Start(ctx, box); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Streams.Out, "started %s\n", box.Name)
	return err
}

// RunStop stops the box and says what is in the box alone.
func RunStop(ctx context.Context, o *Options) error {
	box, k, err := o.find()
	if err != nil {
		return err
	}
	left, err := k.Stop(ctx, box)
	if err != nil {
		return err
	}
	for _, row := range tipRows(left) {
		o.Streams.Warn("not landed, kept in the box: %s", row)
	}
	_, err = fmt.Fprintf(o.Streams.Out, "stopped %s\n", box.Name)
	o.Streams.Note("next: agentbox start %s", box.Name)
	return err
}

func tipRows(tips []boxes.Tip) []string {
	var rows []string
	for _, t := range tips {
		rows = append(rows, t.OID.Short()+" of "+t.Ref.Quote())
	}
	return rows
}
