// Package agents is the commands `agentbox claude`, `codex` and `opencode`: a
// coding agent in a box of its own, or in one that is there.
package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/cmd/create"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/launch"
	"github.com/madarco/agentbox/cli/internal/session"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/agents"
	"github.com/madarco/agentbox/core/provider"
	wire "github.com/madarco/agentbox/core/session"
)

// Options are the options of all forms.
type Options struct {
	launch.Options
	session.Opener
	// Make makes a box by Create.
	Make   func(ctx context.Context, o *create.Options) (core.Box, provider.Provider, error)
	Create *create.Options

	Agent agents.Agent
	// Ref is the box of attach and start.
	Ref string
	// Args are the agent's, as they are.
	Args []string
}

// Runs are what the forms do.
type Runs struct {
	// Launch is the agent in a new box, Start in one that is there.
	Launch, Start func(context.Context, *Options) error
}

// Real is what the commands do outside tests.
var Real = Runs{Launch: Launch, Start: Start}

// New parses the command lines of one agent.
func New(f *factory.Factory, agent agents.Agent, made *create.Options, wake func(context.Context, core.Box) error, runs Runs) *cli.Command {
	o := &Options{
		Options: launch.Options{Streams: f.Streams, Getenv: os.Getenv},
		Opener:  session.NewOpener(f, wake), Make: create.Make, Create: made, Agent: agent,
	}
	return &cli.Command{
		Name:      agent.Name,
		Usage:     "run " + agent.Title + " in a new box of this project",
		ArgsUsage: "[-- arguments…]",
		Description: "The keys and addresses of its service in your environment go to its session,\n" +
			"and nowhere else. It may do everything in its box without asking. Ctrl+a d\n" +
			"leaves it running. Without a terminal, or where its arguments make it print\n" +
			"an answer and end, it runs on plain streams and ends with its code.",
		DisableSliceFlagSeparator: true,
		Flags:                     append(create.Flags(made), launch.Flags(&o.Options)...),
		Commands:                  []*cli.Command{newAttach(f, o, runs.Start), newStart(f, o, runs.Start)},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return fail.Usagef(fmt.Sprintf("%s -- %s", c.FullName(), core.Untrusted(c.Args().First()).Quote()), "what is meant for %s goes behind --", agent.Title)
			}
			if err := create.CheckFlags(c, made); err != nil {
				return err
			}
			o.Args = f.Tail
			return runs.Launch(ctx, o)
		},
	}
}

func newAttach(f *factory.Factory, o *Options, run func(context.Context, *Options) error) *cli.Command {
	return &cli.Command{
		Name:        "attach",
		Usage:       "show " + o.Agent.Title + " of a box, and start it if it does not run",
		ArgsUsage:   "[box]",
		Description: "It takes a terminal. A box that does not run is started first. Ctrl+a d leaves\nit running.",
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Words(c, f, 0, 1); err != nil {
				return err
			}
			o.Ref = c.Args().First()
			if err := session.CheckTerminal(f.Streams, o.Ref); err != nil {
				return err // start would run it on plain streams
			}
			return run(ctx, o)
		},
	}
}

func newStart(f *factory.Factory, o *Options, run func(context.Context, *Options) error) *cli.Command {
	return &cli.Command{
		Name:      "start",
		Usage:     "start " + o.Agent.Title + " in a box that is there",
		ArgsUsage: "[box] [-- arguments…]",
		Description: "A box that does not run is started first. Where the agent runs already, it is\n" +
			"shown, and the arguments are left out.",
		Flags: launch.Flags(&o.Options),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Count(c, 0, 1); err != nil {
				return err
			}
			o.Ref, o.Args = c.Args().First(), f.Tail
			return run(ctx, o)
		},
	}
}

// plan checks the options and plans the agent's start.
func (o *Options) plan() (launch.Plan, error) {
	if err := o.Check(); err != nil {
		return launch.Plan{}, err
	}
	return o.Plan(append([]string{o.Agent.Name}, o.Args...)), nil
}

// Launch makes a box and runs the agent in it.
func Launch(ctx context.Context, o *Options) error {
	plan, err := o.plan()
	if err == nil {
		err = o.CheckKey(plan)
	}
	if err != nil {
		return err
	}
	return InNewBox(ctx, o.Create, o.Make, &o.Options, plan)
}

// InNewBox makes a box and starts the plan in it. A box whose command could not
// be started stays, and is named.
func InNewBox(ctx context.Context, made *create.Options, make func(context.Context, *create.Options) (core.Box, provider.Provider, error), o *launch.Options, plan launch.Plan) error {
	box, p, err := make(ctx, made)
	if err != nil {
		return err
	}
	o.Streams.Note("box %s (number %d) works on branch %s", box.Name, box.ProjectIndex, cmp.Or(made.UseBranch, string(box.Name.Branch())))
	err = o.Start(ctx, p, box, plan)
	if exit := fail.Exit(0); err != nil && !errors.As(err, &exit) {
		o.Streams.Note("box %s runs nevertheless; agentbox destroy %s removes it", box.Name, box.Name)
	}
	return err
}

// Start runs the agent in a box that is there, or shows the one that runs.
func Start(ctx context.Context, o *Options) error {
	plan, err := o.plan()
	if err != nil {
		return err
	}
	box, p, err := o.Open(ctx, o.Ref)
	if err != nil {
		return err
	}
	err = o.Options.Start(ctx, p, box, plan)
	if !errors.Is(err, session.ErrExists) || o.Detach {
		return err
	}
	if len(o.Args) > 0 {
		o.Options.Streams.Note("%s runs in box %s already; its arguments stay as they were", o.Agent.Title, box.Name)
	}
	return session.Attach(ctx, o.Options.Streams, p, box, wire.Name(o.Agent.Name))
}
