// Package shell is the command `agentbox shell`: a terminal, or one command, in
// a box, and the list of the terminals that are open there.
package shell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/session"
	"github.com/madarco/agentbox/core"
	wire "github.com/madarco/agentbox/core/session"
)

// Options are the options of all forms.
type Options struct {
	session.Opener
	Now func() time.Time

	Ref     string
	Command []string
	// Label names a shell, New asks for one that is not there yet, and Plain
	// for one that ends with the terminal.
	Label      string
	New, Plain bool
	// All ends every shell.
	All  bool
	JSON output.JSON
}

// Runs are what the forms do.
type Runs struct {
	Open, List, Kill func(context.Context, *Options) error
}

// Real is what the commands do outside tests.
var Real = Runs{Open: Run, List: RunList, Kill: RunKill}

// New parses the command lines of shell.
func New(f *factory.Factory, wake func(context.Context, core.Box) error, runs Runs) *cli.Command {
	o := &Options{Opener: session.NewOpener(f, wake), Now: f.Now}
	return &cli.Command{
		Name:      "shell",
		Usage:     "open a terminal in a box, or run one command there",
		ArgsUsage: "[box] [-- command…]",
		Description: "Without a command it opens a login shell that goes on when you leave it with\n" +
			"Ctrl+a d; the same line brings it back. One word behind -- is a line for that\n" +
			"shell; several are a program and its arguments, passed on as they are, and the\n" +
			"exit code is that of the command. A box that does not run is started first.",
		Flags: []cli.Flag{
			label(o),
			&cli.BoolFlag{Name: "new", Usage: "one more shell, beside those that are open", Destination: &o.New, Local: true},
			&cli.BoolFlag{Name: "no-tmux", Usage: "a shell that ends with the terminal", Destination: &o.Plain, Local: true},
		},
		Commands: []*cli.Command{newList(f, o, runs.List), newKill(f, o, runs.Kill)},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() > 1 {
				return fail.Usagef("agentbox shell [box] -- command…", "%s takes one box; a command for it goes behind --", c.FullName())
			}
			if f.HasTail && len(f.Tail) == 0 {
				return fail.Usagef("agentbox shell [box] -- ls -l", "no command behind --")
			}
			o.Ref, o.Command = c.Args().First(), f.Tail
			named := o.Label != "" || o.New
			if named && (o.Plain || len(o.Command) > 0) || o.New && o.Label != "" {
				return fail.Usagef("agentbox shell --help", "--name, --new, --no-tmux and a command exclude each other")
			}
			return runs.Open(ctx, o)
		},
	}
}

func label(o *Options) cli.Flag {
	return &cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "the shell's `NAME`, for more than one", Destination: &o.Label, Local: true}
}

func newList(f *factory.Factory, o *Options, run func(context.Context, *Options) error) *cli.Command {
	return &cli.Command{
		Name: "ls", Aliases: []string{"list"},
		Usage:     "list the shells that are open in a box",
		ArgsUsage: "[box]",
		Flags:     []cli.Flag{args.JSON(&o.JSON)},
		Action:    one(f, o, run),
	}
}

func newKill(f *factory.Factory, o *Options, run func(context.Context, *Options) error) *cli.Command {
	return &cli.Command{
		Name:      "kill",
		Usage:     "end a shell of a box, and what runs in it",
		ArgsUsage: "[box]",
		Flags: []cli.Flag{
			label(o),
			&cli.BoolFlag{Name: "all", Usage: "every shell", Destination: &o.All, Local: true},
		},
		Action: one(f, o, run),
	}
}

// one reads a command line of at most one box.
func one(f *factory.Factory, o *Options, run func(context.Context, *Options) error) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		if err := args.Words(c, f, 0, 1); err != nil {
			return err
		}
		o.Ref = c.Args().First()
		return run(ctx, o)
	}
}

// base is the session of the shell without a name; those of others begin so.
const base wire.Name = "shell"

// named is the session of a shell.
func named(label string) (wire.Name, error) {
	if label == "" {
		return base, nil
	}
	return wire.ParseName(string(base) + "-" + label)
}

func isShell(n wire.Name) bool { return n == base || strings.HasPrefix(string(n), string(base)+"-") }

// Run opens the terminal or runs the command. A code other than zero is
// returned as fail.Exit.
func Run(ctx context.Context, o *Options) error {
	name, err := named(o.Label)
	if err != nil {
		return err
	}
	box, p, err := o.Open(ctx, o.Ref)
	if err != nil {
		return err
	}
	if len(o.Command) > 0 || o.Plain || !o.Streams.InTTY || !o.Streams.OutTTY {
		return session.Run(ctx, o.Streams, p, box, o.Command)
	}
	if o.New {
		list, err := session.List(ctx, p, box)
		if err != nil {
			return err
		}
		name = free(list)
	}
	err = session.Start(ctx, p, box, wire.Request{Name: name, Argv: []string{"/bin/bash", "-l"}, Dir: core.WorkspacePath})
	switch {
	case errors.Is(err, session.ErrNoTmux) && name == base:
		o.Streams.Note("box %s has no tmux: this shell ends with the terminal", box.Name)
		return session.Run(ctx, o.Streams, p, box, nil)
	case err != nil && !errors.Is(err, session.ErrExists):
		return err
	}
	return session.Attach(ctx, o.Streams, p, box, name)
}

// free is the first name of a shell that none of the sessions has.
func free(list []wire.Info) wire.Name {
	for n := 1; ; n++ {
		name := base
		if n > 1 {
			name = wire.Name(fmt.Sprintf("%s-%d", base, n))
		}
		if !slices.ContainsFunc(list, func(i wire.Info) bool { return i.Name == name }) {
			return name
		}
	}
}

// View is one shell as it is shown.
type View struct {
	Name      wire.Name `json:"name"`
	Attached  int       `json:"attached"`
	CreatedAt time.Time `json:"createdAt"`
}

// RunList lists the shells.
func RunList(ctx context.Context, o *Options) error {
	if err := output.Check[View](o.JSON); err != nil {
		return err
	}
	box, p, err := o.Open(ctx, o.Ref)
	if err != nil {
		return err
	}
	list, err := shells(ctx, p, box)
	if err != nil {
		return err
	}
	views, rows := make([]View, len(list)), [][]string{{"SHELL", "ATTACHED", "AGE"}}
	for n, i := range list {
		views[n] = View{i.Name, i.Attached, i.CreatedAt().UTC()}
		rows = append(rows, []string{string(i.Name), fmt.Sprint(i.Attached), output.Age(o.Now().Sub(i.CreatedAt()))})
	}
	if o.JSON.On {
		return output.List(o.Streams.Out, o.JSON, o.Streams.OutTTY, views)
	}
	if len(list) == 0 {
		o.Streams.Note("no shell is open in box %s; next: agentbox shell %s", box.Name, box.Name)
		return nil
	}
	return output.Table(o.Streams.Out, rows)
}

func shells(ctx context.Context, in session.Execer, box core.Box) ([]wire.Info, error) {
	list, err := session.List(ctx, in, box)
	return slices.DeleteFunc(list, func(i wire.Info) bool { return !isShell(i.Name) }), err
}

// RunKill ends a shell, or all of them.
func RunKill(ctx context.Context, o *Options) error {
	if o.All && o.Label != "" {
		return fail.Usagef("agentbox shell kill --help", "--name and --all exclude each other")
	}
	name, err := named(o.Label)
	if err != nil {
		return err
	}
	box, p, err := o.Open(ctx, o.Ref)
	if err != nil {
		return err
	}
	ends := []wire.Info{{Name: name}}
	if o.All {
		if ends, err = shells(ctx, p, box); err != nil {
			return err
		}
	}
	for _, i := range ends {
		if err := session.Kill(ctx, p, box, i.Name); err != nil {
			return err
		}
		fmt.Fprintf(o.Streams.Out, "ended %s of box %s\n", i.Name, box.Name)
	}
	return nil
}
