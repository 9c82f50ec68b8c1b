package git

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/cmd/land"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
)

// PushOptions are the options of `git push`.
type PushOptions struct {
	Streams *streams.Streams
	Box     func(ref string) (core.Box, error)
	Relay   func(context.Context) (factory.Relay, error)

	Ref    string
	Branch string
	Force  bool
	// HostOnly brings the box's branch into the user's repository, as a branch
	// As, and leaves the remote alone.
	HostOnly bool
	As       string
	Land     func(context.Context, *land.Options) error
	Now      func() time.Time
}

func newPush(f *factory.Factory, landing func(context.Context, *land.Options) error, run func(context.Context, *PushOptions) error) *cli.Command {
	o := &PushOptions{Streams: f.Streams, Box: f.Box, Relay: f.Relay, Land: landing, Now: f.Now}
	return &cli.Command{
		Name:        "push",
		Usage:       "push a box's landed branch to the remote",
		ArgsUsage:   "[box]",
		Description: "It runs on the host with your own credentials, and asks nothing: you typed it.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "branch", Usage: "the landed `BRANCH`; default is the box's own", Destination: &o.Branch, Local: true},
			&cli.BoolFlag{Name: "force", Usage: "replace what the remote has, if it is still what was last seen", Destination: &o.Force, Local: true},
			&cli.BoolFlag{Name: "host-only", Usage: "into your repository alone, and to no remote", Destination: &o.HostOnly, Local: true},
			&cli.StringFlag{Name: "as", Usage: "with --host-only: as this `BRANCH` of yours", Destination: &o.As, Local: true},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Words(c, f, 0, 1); err != nil {
				return err
			}
			o.Ref = c.Args().First()
			if c.IsSet("as") && (!o.HostOnly || o.As == "") {
				return fail.New(fail.Contradict, c.FullName()+" --help", "--as names a branch for --host-only")
			}
			return run(ctx, o)
		},
	}
}

// RunPush lets the relay push the box's landed branch.
func RunPush(ctx context.Context, o *PushOptions) error {
	if o.HostOnly {
		return pushToHost(ctx, o)
	}
	var branch core.BranchName
	var err error
	if o.Branch != "" {
		if branch, err = core.ParseBranchName(o.Branch); err != nil {
			return err
		}
	}
	box, repo, err := repository(o.Box, o.Ref)
	if err != nil {
		return err
	}
	relay, err := o.Relay(ctx)
	if err != nil {
		return err
	}
	result, err := relay.Push(ctx, wire.HostPush{BoxID: box.ID, Branch: branch, Force: o.Force})
	if err != nil {
		return fmt.Errorf("push box %s: %w", box.Name, err)
	}
	if err := show(o.Streams, result); err != nil || result.ExitCode == 0 {
		return err
	}
	if branch != "" && !policy.IsSanctioned(repo, branch) {
		o.Streams.Note("only the box's own branch lands, %s, and one that you put it on: agentbox git checkout %s %s", repo.Branch, box.Name, branch)
	}
	return fail.Exited(result.ExitCode)
}

// show prints what the remote said.
func show(s *streams.Streams, e wire.Envelope) error {
	for _, part := range []struct {
		w    io.Writer
		text string
	}{{s.Out, e.Stdout}, {s.ErrOut, e.Stderr}} {
		if part.text == "" {
			continue
		}
		if _, err := fmt.Fprintln(part.w, output.Printable(part.text)); err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
	}
	return nil
}

// pushToHost brings the branch into the user's repository, which goes as every
// landing that the user asks for.
func pushToHost(ctx context.Context, o *PushOptions) error {
	if o.Branch != "" {
		return fail.New(fail.Contradict, "leave one of the two out", "--host-only brings the box's own branch, --branch is what goes to the remote")
	}
	to := &land.Options{Streams: o.Streams, Box: o.Box, Relay: o.Relay, Now: o.Now, Ref: o.Ref, Host: true, Force: o.Force}
	if o.As != "" {
		as, err := core.ParseBranchName(o.As)
		if err != nil {
			return &fail.Error{Err: err, Code: fail.Contradict, Next: "name a branch of yours, such as review/one"}
		}
		to.As = as
	}
	return o.Land(ctx, to)
}
