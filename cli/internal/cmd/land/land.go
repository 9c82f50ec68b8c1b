// Package land is the command `agentbox land`.
package land

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/cli/internal/view"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
)

// Keeper brings commits out of boxes.
type Keeper interface {
	// Land lets the box hand in its commits; what came of it goes to w.
	Land(ctx context.Context, box core.Box, w io.Writer) (code int, err error)
	// AskToLand asks whether one branch of the box should land on a branch of
	// the user's.
	AskToLand(ctx context.Context, box core.Box, branch, as core.BranchName) (wire.AskedLanding, error)
}

// Options are the options of land.
type Options struct {
	Streams *streams.Streams
	Box     func(ref string) (core.Box, error)
	// Relay makes sure that somebody takes the commits in.
	Relay  func(ctx context.Context) (factory.Relay, error)
	Keeper func() (Keeper, error)
	Now    func() time.Time

	Ref string
	// Branch of the box to land after it was shown, on the user's branch As.
	Branch, As core.BranchName
	// Host lands one branch as a push to the user's own repository: a branch that
	// is not there yet lands unasked, and Force may ask about commits that go away.
	Host, Force bool
}

// New parses the command line of land.
func New(f *factory.Factory, keeper func() (Keeper, error), run func(context.Context, *Options) error) *cli.Command {
	o := &Options{Streams: f.Streams, Box: f.Box, Relay: f.Relay, Keeper: keeper, Now: f.Now}
	var as string
	return &cli.Command{
		Name:      "land",
		Usage:     "land a box's commits now, and say what became of them",
		ArgsUsage: "[box [branch]]",
		Description: "Commits land by themselves within moments; this waits for it. With a branch of\n" +
			"the box it shows what of yours would move from where to where, and asks.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "as", Usage: "land on `BRANCH` of yours instead, such as one beside it", Destination: &as, Local: true},
		},
		Action: func(ctx context.Context, c *cli.Command) (err error) {
			if err := args.Words(c, f, 0, 2); err != nil {
				return err
			}
			o.Ref = c.Args().First()
			if o.Branch, err = branch(c.Args().Get(1)); err != nil {
				return err
			}
			if o.As, err = branch(as); err != nil {
				return err
			}
			return run(ctx, o)
		},
	}
}

func branch(name string) (core.BranchName, error) {
	if name == "" {
		return "", nil
	}
	b, err := core.ParseBranchName(name)
	if err != nil {
		return "", &fail.Error{Err: err, Code: fail.Usage}
	}
	return b, nil
}

// Run lets the box hand in its commits and passes its words on, or asks about one
// branch.
func Run(ctx context.Context, o *Options) error {
	box, err := o.Box(o.Ref)
	if err != nil {
		return err
	}
	relay, err := o.Relay(ctx)
	if err != nil {
		return err
	}
	keeper, err := o.Keeper()
	if err != nil {
		return err
	}
	if o.Host || o.Branch != "" || o.As != "" {
		return ask(ctx, o, keeper, relay, box)
	}
	o.Streams.Note("box %s says:", box.Name)
	lines := output.NewLines(o.Streams.Out)
	code, err := keeper.Land(ctx, box, lines)
	if err != nil {
		return err
	}
	if err := lines.Close(); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	waiting, err := relay.Landings(ctx, box.ID)
	if err != nil {
		return err
	}
	for _, l := range waiting {
		p := view.OfLanding(box, l)
		o.Streams.Warn("%s; next: %s", p.What, p.Next)
	}
	return fail.Exited(code)
}

// ask shows what would move, and lands it on a yes. A question that nobody can
// answer here stays, like those that boxes ask.
func ask(ctx context.Context, o *Options, keeper Keeper, relay factory.Relay, box core.Box) error {
	asked, err := keeper.AskToLand(ctx, box, o.Branch, o.As)
	if err != nil {
		return err
	}
	a := asked.Approval
	if a == nil {
		l := asked.Landing
		if !l.Here() {
			p := view.OfLanding(box, wire.WaitingLanding{Landing: l})
			return fail.New(fail.Failed, p.Next, "%s", p.What)
		}
		_, err := fmt.Fprintf(o.Streams.Out, "%s %s %s\n", l.Status, l.Branch, l.New.Short())
		return err
	}
	answer := func(word string) (wire.Answered, error) {
		return relay.Answer(ctx, wire.Answer{ID: a.ID, Answer: word, Digest: a.Digest})
	}
	switch update := a.Land.Update; {
	case o.Host && update.Old.IsZero() && len(update.Facts.Findings) == 0:
		view.RedList(o.Streams.ErrOut, update.Facts.RedList)
		done, err := answer("y") // the user's own command, and nothing of theirs moves
		if err != nil {
			return err
		}
		return view.Done(o.Streams.Out, done)
	case o.Host && !o.Force && !update.Facts.FastForward:
		return fail.New(fail.Refused, fmt.Sprintf("agentbox git push %s --host-only --as <another>, or --force, which shows it and asks", box.Name),
			"commits of %s in your repository would go away", asked.Landing.Branch)
	}
	view.Describe(o.Streams.ErrOut, view.OfApproval(*a), o.Now())
	if !o.Streams.CanAsk() {
		return fail.New(fail.Refused, "agentbox agent approve "+a.ID, "land %s: there is no terminal to ask on; the question stays", asked.Landing.Branch)
	}
	typed, err := o.Streams.Ask(ctx, "Land it? [y/N] ")
	if err != nil {
		return err
	}
	yes := strings.EqualFold(typed, "y") || strings.EqualFold(typed, "yes")
	word := "n"
	if yes {
		word = "y"
	}
	done, err := answer(word)
	if err != nil {
		return err
	}
	if !yes {
		o.Streams.Note("nothing has moved")
		return nil
	}
	return view.Done(o.Streams.Out, done)
}
