package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/config"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/cli/internal/view"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/client"
)

// ApproveOptions are the options of `agent approve`.
type ApproveOptions struct {
	Streams *streams.Streams
	Boxes   func() (all []core.Box, project string, err error)
	Relay   func(context.Context) (factory.Relay, error)
	Config  func() (config.Config, error)
	Now     func() time.Time

	ID   string
	Deny bool
	Note string
}

func newApprove(f *factory.Factory, run func(context.Context, *ApproveOptions) error) *cli.Command {
	o := &ApproveOptions{Streams: f.Streams, Boxes: f.Boxes, Relay: f.Relay, Config: f.Config, Now: f.Now}
	return &cli.Command{
		Name:      "approve",
		Usage:     "answer what a box asked",
		ArgsUsage: "<id>",
		Description: "A yes needs a terminal. Without one it is accepted only for the classes that\n" +
			"approvals.unattended in config.yaml names, of:\n" + classes() + ".\n" +
			"The default branch, commits with findings, what looks secret and what can make\n" +
			"something run on this machine later always take a person.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "deny", Usage: "answer no", Destination: &o.Deny, Local: true},
			&cli.StringFlag{Name: "note", Usage: "a `TEXT` that the agent reads", Destination: &o.Note, Local: true},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Words(c, f, 1, 1); err != nil {
				return err
			}
			o.ID = c.Args().First()
			return run(ctx, o)
		},
	}
}

func classes() string {
	var words []string
	for _, c := range policy.Classes {
		words = append(words, string(c))
	}
	return strings.Join(words, ", ")
}

// RunApprove answers one approval. The answer carries the digest of what was
// shown, so that it never meets another request.
func RunApprove(ctx context.Context, o *ApproveOptions) error {
	relay, err := o.Relay(ctx)
	if err != nil {
		return err
	}
	all, err := relay.Approvals(ctx, "")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(a wire.Approval) bool { return a.ID == o.ID })
	if i < 0 {
		return fail.Usagef("agentbox agent approvals", "no approval %s waits", core.Untrusted(o.ID).Quote())
	}
	a := all[i]
	if !o.Deny && !o.Streams.CanAsk() {
		if err := unattended(a, o); err != nil {
			return err
		}
	}
	if !o.Streams.Quiet {
		view.Describe(o.Streams.ErrOut, view.OfApproval(a), o.Now())
	}
	answer, word := "y", "approved"
	if o.Deny {
		answer, word = "n", "denied"
	}
	done, err := relay.Answer(ctx, wire.Answer{ID: a.ID, Answer: answer, Digest: a.Digest, Note: o.Note})
	if errors.Is(err, client.ErrNotFound) {
		o.Streams.Note("approval %s: it is gone already", a.ID)
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(o.Streams.Out, "approval %s: %s\n", a.ID, word); err != nil {
		return err
	}
	return view.Done(o.Streams.Out, done)
}

// unattended tells whether the user lets a program say yes to this request.
func unattended(a wire.Approval, o *ApproveOptions) error {
	refuse := func(why string) error {
		return fail.New(fail.Refused, "run the command on a terminal", "approve %s: there is no terminal, and %s", a.ID, why)
	}
	if a.Action != nil && a.Action.Class != "" {
		allowed, err := o.Config()
		if err != nil {
			return err
		}
		if !slices.Contains(allowed.Unattended, a.Action.Class) {
			return refuse(fmt.Sprintf("approvals.unattended in config.yaml does not name %s", a.Action.Class))
		}
		return nil
	}
	if a.Push == nil || len(a.Push.Updates) == 0 {
		return refuse("this request always takes a person")
	}
	boxes, _, err := o.Boxes()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(boxes, func(b core.Box) bool { return b.ID == a.BoxID })
	if i < 0 {
		return refuse("its box is not known here")
	}
	repo, ok := boxes[i].Repo(a.Push.RepoKey)
	if !ok {
		return refuse("its repository is not known here")
	}
	allowed, err := o.Config()
	if err != nil {
		return err
	}
	for _, u := range a.Push.Updates {
		class, ok := policy.ClassOf(repo, u.RefUpdate, u.Facts)
		if !ok {
			return refuse("this request always takes a person")
		}
		if !slices.Contains(allowed.Unattended, class) {
			return refuse(fmt.Sprintf("approvals.unattended in config.yaml does not name %s", class))
		}
	}
	return nil
}
