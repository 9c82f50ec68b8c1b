// Package git is the command `agentbox git`: the user's git work on a box.
package git

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/wire"
)

// New is the command with its subcommands.
func New(f *factory.Factory, push func(context.Context, *PushOptions) error, status func(context.Context, *StatusOptions) error) *cli.Command {
	return &cli.Command{
		Name:     "git",
		Usage:    "push what a box has landed; see its git status",
		Commands: []*cli.Command{newPush(f, push), newStatus(f, status)},
	}
}

// PushOptions are the options of `git push`.
type PushOptions struct {
	Streams *streams.Streams
	Box     func(ref string) (core.Box, error)
	Relay   func(context.Context) (factory.Relay, error)

	Ref    string
	Branch string
	Force  bool
}

func newPush(f *factory.Factory, run func(context.Context, *PushOptions) error) *cli.Command {
	o := &PushOptions{Streams: f.Streams, Box: f.Box, Relay: f.Relay}
	return &cli.Command{
		Name:        "push",
		Usage:       "push a box's landed branch to the remote",
		ArgsUsage:   "[box]",
		Description: "It runs on the host with your own credentials, and asks nothing: you typed it.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "branch", Usage: "the landed `BRANCH`; default is the box's own", Destination: &o.Branch, Local: true},
			&cli.BoolFlag{Name: "force", Usage: "replace what the remote has, if it is still what was last seen", Destination: &o.Force, Local: true},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Words(c, f, 0, 1); err != nil {
				return err
			}
			o.Ref = c.Args().First()
			return run(ctx, o)
		},
	}
}

// RunPush lets the relay push the box's landed branch.
func RunPush(ctx context.Context, o *PushOptions) error {
	var branch core.BranchName
	var err error
	if o.Branch != "" {
		if branch, err = core.ParseBranchName(o.Branch); err != nil {
			return err
		}
	}
	box, err := o.Box(o.Ref)
	if err != nil {
		return err
	}
	if _, ok := box.Root(); !ok {
		return fail.New(fail.Usage, "", "box %s works on no repository", box.Name)
	}
	relay, err := o.Relay(ctx)
	if err != nil {
		return err
	}
	result, err := relay.Push(ctx, wire.HostPush{BoxID: box.ID, Branch: branch, Force: o.Force})
	if err != nil {
		return fmt.Errorf("push box %s: %w", box.Name, err)
	}
	return show(o.Streams, result)
}

// show prints what the remote said, and ends with its code.
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
	return fail.Exited(e.ExitCode)
}

// StatusOptions are the options of `git status`.
type StatusOptions struct {
	Streams  *streams.Streams
	Box      func(ref string) (core.Box, error)
	Provider func(name string) (provider.Provider, error)

	Ref string
}

func newStatus(f *factory.Factory, run func(context.Context, *StatusOptions) error) *cli.Command {
	o := &StatusOptions{Streams: f.Streams, Box: f.Box, Provider: f.Provider}
	return &cli.Command{
		Name:      "status",
		Usage:     "show git status as the box sees it",
		ArgsUsage: "[box]",
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Words(c, f, 0, 1); err != nil {
				return err
			}
			o.Ref = c.Args().First()
			return run(ctx, o)
		},
	}
}

// RunStatus runs git in the box. What it prints is the box's text, so each
// line is shown without anything that acts on the terminal.
func RunStatus(ctx context.Context, o *StatusOptions) error {
	box, err := o.Box(o.Ref)
	if err != nil {
		return err
	}
	repo, ok := box.Root()
	if !ok {
		return fail.New(fail.Usage, "", "box %s works on no repository", box.Name)
	}
	p, err := o.Provider(box.Provider)
	if err != nil {
		return err
	}
	o.Streams.Note("box %s says:", box.Name)
	out, errOut := output.NewLines(o.Streams.Out), output.NewLines(o.Streams.ErrOut)
	code, err := p.Exec(ctx, box, provider.ExecRequest{
		Argv:   []string{"git", "-C", string(repo.BoxPath), "status", "--short", "--branch"},
		Stdout: out, Stderr: errOut,
	})
	if err != nil {
		return fmt.Errorf("ask box %s for its git status: %w", box.Name, err)
	}
	if err := errors.Join(out.Close(), errOut.Close()); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return fail.Exited(code)
}
