// Package root puts the commands together: the tree, its help, and the way
// from a command line to an exit code.
package root

import (
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/boxes"
	"github.com/madarco/agentbox/cli/internal/cmd/agent"
	"github.com/madarco/agentbox/cli/internal/cmd/agents"
	"github.com/madarco/agentbox/cli/internal/cmd/attach"
	"github.com/madarco/agentbox/cli/internal/cmd/audit"
	"github.com/madarco/agentbox/cli/internal/cmd/create"
	"github.com/madarco/agentbox/cli/internal/cmd/doctor"
	"github.com/madarco/agentbox/cli/internal/cmd/git"
	"github.com/madarco/agentbox/cli/internal/cmd/land"
	"github.com/madarco/agentbox/cli/internal/cmd/lifecycle"
	"github.com/madarco/agentbox/cli/internal/cmd/list"
	"github.com/madarco/agentbox/cli/internal/cmd/logs"
	"github.com/madarco/agentbox/cli/internal/cmd/prepare"
	"github.com/madarco/agentbox/cli/internal/cmd/relay"
	runcmd "github.com/madarco/agentbox/cli/internal/cmd/run"
	"github.com/madarco/agentbox/cli/internal/cmd/seed"
	"github.com/madarco/agentbox/cli/internal/cmd/shell"
	"github.com/madarco/agentbox/cli/internal/cmd/status"
	"github.com/madarco/agentbox/cli/internal/complete"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/core"
	coding "github.com/madarco/agentbox/core/agents"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/relay/gitgate"
	"github.com/madarco/agentbox/sandbox-core/workspace"
)

// Machine is what commands do beyond the factory's parts; *system.System is one.
type Machine interface {
	Open(ctx context.Context, folder string, o workspace.Options) (boxes.Project, error)
	Creator(p provider.Provider) (*boxes.Creator, error)
	Keeper() (*boxes.Keeper, error)
	Tries() []provider.Try
	Daemon() relay.Daemon
	// Step shows a part of long work; see provider.CreateRequest.
	Step(name string) (done func(error))
	// PurgeSeed is the work of `seed purge`.
	PurgeSeed(ctx context.Context) (gitgate.Purged, error)
}

// Run runs one command line, program name first, and returns the exit code.
func Run(ctx context.Context, f *factory.Factory, m Machine, args []string) int {
	if len(args) > 1 && args[1] == complete.Ask {
		return fail.Report(f.Streams.ErrOut, completeLine(f, New(f, m), args[2:]), false)
	}
	words, tail, hasTail := split(args)
	f.Tail, f.HasTail = tail, hasTail
	tree := New(f, m)
	if asksHelp(words) {
		words = append([]string{words[0], "help"}, path(tree, words[1:])...)
	}
	err := tree.Run(ctx, words)
	return fail.Report(f.Streams.ErrOut, err, asksJSON(words))
}

// asksHelp tells whether help is wanted; like asksJSON, it is asked before the
// line is parsed, so that a line with mistakes gets help too.
func asksHelp(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return w == "--help" || w == "-h" })
}

// path are the words that lead to the innermost command that a line names.
func path(at *cli.Command, words []string) []string {
	var names []string
	for _, w := range words {
		if sub := at.Command(w); sub != nil {
			at, names = sub, append(names, w)
		}
	}
	return names
}

// split cuts the command line at the first "--": what follows is a command for
// the box, of which no word is ours.
func split(args []string) (words, tail []string, hasTail bool) {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i], args[i+1:], true
	}
	return args, nil, false
}

// asksJSON tells whether errors are wanted as JSON too. It also looks at
// command lines that don't parse.
func asksJSON(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		return w == "--json" || strings.HasPrefix(w, "--json=") && w != "--json=false"
	})
}

// New is the tree of commands.
func New(f *factory.Factory, m Machine) *cli.Command {
	var quiet, plain bool
	root := &cli.Command{
		Name:  "agentbox",
		Usage: "give a coding agent a computer of its own",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "explain the command"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "leave out steps and notes", Destination: &quiet},
			&cli.BoolFlag{Name: "no-color", Usage: "no colours, as with NO_COLOR", Destination: &plain},
			&cli.BoolFlag{Name: "version", Aliases: []string{"V"}, Usage: "print the version", Local: true},
		},
		Before: func(ctx context.Context, _ *cli.Command) (context.Context, error) {
			f.Streams.Quiet = f.Streams.Quiet || quiet
			f.Streams.Color = f.Streams.Color && !plain
			return ctx, nil
		},
		Commands: commands(f, m),
	}
	setUp(f, root)
	return root
}

// commands are the commands of the top level, each in its group.
func commands(f *factory.Factory, m Machine) []*cli.Command {
	in := func(group string, c *cli.Command) *cli.Command {
		c.Category = group
		return c
	}
	keeper := func() (lifecycle.Keeper, error) { return m.Keeper() }
	start := func(ctx context.Context, box core.Box) error {
		k, err := m.Keeper()
		if err != nil {
			return err
		}
		return k.Start(ctx, box)
	}
	onBranch := func() (git.Keeper, error) { return m.Keeper() }
	made := func() *create.Options { return create.NewOptions(f, m.Open, m.Creator, onBranch) }
	var all []*cli.Command
	for _, agent := range coding.All {
		all = append(all, in("Create & run", agents.New(f, agent, made(), start, agents.Real)))
	}
	return append(all,
		in("Create & run", create.New(made(), f, create.Run)),
		in("Create & run", runcmd.New(f, made(), runcmd.Run)),
		in("Access", attach.New(f, start, attach.Run)),
		in("Access", shell.New(f, start, shell.Real)),
		in("Inspect", list.New(f, list.Run)),
		in("Inspect", status.New(f, status.Run)),
		in("Inspect", agent.New(f, agent.RunApprovals, agent.RunApprove)),
		in("Inspect", logs.New(f, logs.Run)),
		in("Inspect", audit.New(f, audit.Run)),
		in("Lifecycle", lifecycle.New(f, keeper, lifecycle.Start, lifecycle.Run)),
		in("Lifecycle", lifecycle.New(f, keeper, lifecycle.Stop, lifecycle.Run)),
		in("Lifecycle", lifecycle.New(f, keeper, lifecycle.Pause, lifecycle.Run)),
		in("Lifecycle", lifecycle.New(f, keeper, lifecycle.Unpause, lifecycle.Run)),
		in("Lifecycle", lifecycle.NewDestroy(f, keeper, lifecycle.RunDestroy)),
		in("Git & sync", git.New(f, onBranch, func(ctx context.Context, o *land.Options) error {
			o.Keeper = func() (land.Keeper, error) { return m.Keeper() }
			return land.Run(ctx, o)
		}, git.RunPush, git.Run)),
		in("Git & sync", land.New(f, func() (land.Keeper, error) { return m.Keeper() }, land.Run)),
		in("Advanced", seed.New(f, m.PurgeSeed, seed.RunPurge)),
		in("Advanced", prepare.New(f, func(name string) func(error) { return m.Step(name) }, prepare.Run)),
		in("Advanced", doctor.New(f, m.Tries, doctor.Run)),
		in("Advanced", relay.New(f, m.Daemon(), start)),
		newCompletion(f),
		newVersion(f),
		newHelp(f),
	)
}

// setUp gives a command and those below it what all have: help of ours, usage
// errors of ours, and no exit of their own.
func setUp(f *factory.Factory, c *cli.Command) {
	c.HideHelp, c.HideVersion = true, true // theirs
	c.ExitErrHandler = func(context.Context, *cli.Command, error) {}
	c.OnUsageError = func(_ context.Context, c *cli.Command, err error, _ bool) error { return misused(c, err) }
	if len(c.Commands) > 0 && c.Action == nil {
		first := 1 // the options behind a word that is no command are not ours to judge
		c.StopOnNthArg = &first
	}
	if c.Action == nil {
		c.Action = func(_ context.Context, c *cli.Command) error {
			if c.Root() == c && c.Bool("version") {
				return printVersion(f)
			}
			if c.Args().Present() {
				return unknown(c, c.Args().First())
			}
			return help(f.Streams.Out, c)
		}
	}
	for _, sub := range c.Commands {
		setUp(f, sub)
	}
}
