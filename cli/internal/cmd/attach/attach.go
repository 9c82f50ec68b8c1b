// Package attach is the command `agentbox attach`: back to what runs in a box.
package attach

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/session"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/agents"
	wire "github.com/madarco/agentbox/core/session"
)

// Options are the options of attach.
type Options struct {
	session.Opener
	Now func() time.Time

	Ref string
	// Session is the session's name, "" for a choice.
	Session string
}

// New parses the command line of attach.
func New(f *factory.Factory, wake func(context.Context, core.Box) error, run func(context.Context, *Options) error) *cli.Command {
	o := &Options{Opener: session.NewOpener(f, wake), Now: f.Now}
	return &cli.Command{
		Name:      "attach",
		Usage:     "show a session of a box: an agent, a command, a shell",
		ArgsUsage: "[box]",
		Description: "It takes a terminal. Of several sessions it asks for one.\n" +
			"Ctrl+a d leaves the session running. A box that does not run is started first.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "session", Aliases: []string{"s"}, Usage: "the session's `NAME`", Destination: &o.Session, Local: true},
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

// Run shows the session.
func Run(ctx context.Context, o *Options) error {
	var name wire.Name
	if o.Session != "" {
		var err error
		if name, err = wire.ParseName(o.Session); err != nil {
			return err
		}
	}
	if err := session.CheckTerminal(o.Streams, o.Ref); err != nil {
		return err // no box is started for nothing
	}
	box, p, err := o.Open(ctx, o.Ref)
	if err != nil {
		return err
	}
	list, err := session.List(ctx, p, box)
	if err != nil {
		return err
	}
	if name, err = o.choose(ctx, box, list, name); err != nil {
		return err
	}
	return session.Attach(ctx, o.Streams, p, box, name)
}

// choose is the session that is meant, or the user's choice.
func (o *Options) choose(ctx context.Context, box core.Box, list []wire.Info, want wire.Name) (wire.Name, error) {
	switch {
	case len(list) == 0:
		return "", fail.New(fail.Failed, fmt.Sprintf("agentbox claude start %s, or agentbox shell %s", box.Name, box.Name), "box %s has no session", box.Name)
	case want != "":
		if !slices.ContainsFunc(list, func(i wire.Info) bool { return i.Name == want }) {
			e := fail.New(fail.Usage, "say one of these with --session", "session %s of box %s: %w", want, box.Name, session.ErrNone)
			for _, i := range list {
				e.Rows = append(e.Rows, string(i.Name))
			}
			return "", e
		}
		return want, nil
	case len(list) == 1:
		return list[0].Name, nil
	case !o.Streams.CanAsk():
		return slices.MaxFunc(list, func(a, b wire.Info) int { return int(a.Created - b.Created) }).Name, nil
	}
	slices.SortStableFunc(list, func(a, b wire.Info) int { return rank(a) - rank(b) })
	for n, i := range list {
		fmt.Fprintf(o.Streams.ErrOut, "  %d) %s  %s\n", n+1, i.Name, describe(i, o.Now()))
	}
	answer, err := o.Streams.Ask(ctx, "Which one? [1] ")
	if err != nil {
		return "", err
	}
	if answer == "" {
		answer = "1"
	}
	n, err := strconv.Atoi(answer)
	if err != nil || n < 1 || n > len(list) {
		return "", fail.Usagef("answer with a number, or use --session", "%s is none of the numbers", core.Untrusted(answer).Quote())
	}
	return list[n-1].Name, nil
}

// rank puts agents first, in their own order.
func rank(i wire.Info) int {
	if n := slices.IndexFunc(agents.All, func(a agents.Agent) bool { return a.Name == string(i.Name) }); n >= 0 {
		return n
	}
	return len(agents.All)
}

// describe is what tells a session from others.
func describe(i wire.Info, now time.Time) string {
	text := "started " + output.Age(now.Sub(i.CreatedAt())) + " ago"
	if i.Exit != nil {
		text += fmt.Sprintf(", ended with code %d", *i.Exit)
	}
	if i.Attached > 0 {
		text += ", shown elsewhere"
	}
	return text
}
