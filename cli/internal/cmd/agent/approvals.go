// Package agent is the command `agentbox agent`: what boxes ask of the user,
// and the user's answers.
package agent

import (
	"context"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/cli/internal/view"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
)

// New is the command with its subcommands.
func New(f *factory.Factory, approvals func(context.Context, *ApprovalsOptions) error, approve func(context.Context, *ApproveOptions) error) *cli.Command {
	return &cli.Command{
		Name:     "agent",
		Usage:    "see and answer what boxes ask",
		Commands: []*cli.Command{newApprovals(f, approvals), newApprove(f, approve)},
	}
}

// ApprovalsOptions are the options of `agent approvals`.
type ApprovalsOptions struct {
	Streams *streams.Streams
	Box     func(ref string) (core.Box, error)
	Relay   func(context.Context) (factory.Relay, error)
	Now     func() time.Time

	Ref  string
	JSON output.JSON
	// Wait is how long to wait until something is asked.
	Wait time.Duration
}

func newApprovals(f *factory.Factory, run func(context.Context, *ApprovalsOptions) error) *cli.Command {
	o := &ApprovalsOptions{Streams: f.Streams, Box: f.Box, Relay: f.Relay, Now: f.Now}
	var wait string
	return &cli.Command{
		Name:      "approvals",
		Usage:     "list what waits for your answer",
		ArgsUsage: "[box]",
		Flags: []cli.Flag{
			args.JSON(&o.JSON),
			&cli.StringFlag{Name: "wait", Usage: "wait up to `TIME` until something is asked: 5000 (ms), 30s", Destination: &wait, Local: true},
		},
		Action: func(ctx context.Context, c *cli.Command) (err error) {
			if err := args.Words(c, f, 0, 1); err != nil {
				return err
			}
			if wait != "" {
				if o.Wait, err = args.Wait(wait); err != nil {
					return err
				}
			}
			o.Ref = c.Args().First()
			return run(ctx, o)
		},
	}
}

// RunApprovals lists what waits: of one box, or of all without a reference.
func RunApprovals(ctx context.Context, o *ApprovalsOptions) error {
	if err := output.Check[view.Approval](o.JSON); err != nil {
		return err
	}
	var boxID string
	if o.Ref != "" {
		box, err := o.Box(o.Ref)
		if err != nil {
			return err
		}
		boxID = box.ID
	}
	relay, err := o.Relay(ctx)
	if err != nil {
		return err
	}
	waiting, err := pending(ctx, relay, boxID, o.Wait)
	if err != nil {
		return err
	}
	views := make([]view.Approval, len(waiting))
	for i, a := range waiting {
		views[i] = view.OfApproval(a)
	}
	if o.JSON.On {
		return output.List(o.Streams.Out, o.JSON, o.Streams.OutTTY, views)
	}
	if len(views) == 0 {
		o.Streams.Note("nothing waits for you")
		return nil
	}
	for _, v := range views {
		view.Describe(o.Streams.Out, v, o.Now())
	}
	o.Streams.Note("%s", view.NextAnswer)
	return nil
}

// poll is how often the relay is asked while nothing waits.
const poll = 200 * time.Millisecond

// pending asks for what waits until there is something or the time is over. What
// expired is listed with it, so that nobody misses that it was asked.
func pending(ctx context.Context, relay factory.Relay, boxID string, wait time.Duration) ([]wire.Approval, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	again := time.NewTicker(poll)
	defer again.Stop()
	for {
		all, err := relay.Approvals(ctx, boxID)
		if err != nil {
			return nil, err
		}
		shown := slices.DeleteFunc(all, func(a wire.Approval) bool { return a.State != wire.Pending && a.State != wire.Expired })
		if wait <= 0 || slices.ContainsFunc(shown, func(a wire.Approval) bool { return a.State == wire.Pending }) {
			return shown, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-over.C:
			wait = 0
		case <-again.C:
		}
	}
}
