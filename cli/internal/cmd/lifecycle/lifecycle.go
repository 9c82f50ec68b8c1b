// Package lifecycle is the commands `agentbox start`, `stop`, `pause`,
// `unpause` and `destroy`, each for one box or several.
//
// Invariants:
//   - Every box that the line names is found before any is touched.
//   - What fails on one box does not keep the verb from the others; the exit
//     code and the last words tell of it.
package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"
	"golang.org/x/sync/errgroup"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/boxes"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
)

// Keeper is what the commands need of boxes.Keeper.
type Keeper interface {
	Start(ctx context.Context, box core.Box) error
	Stop(ctx context.Context, box core.Box) (boxes.Outcome, error)
	Pause(ctx context.Context, box core.Box) (boxes.Outcome, error)
	Unpause(ctx context.Context, box core.Box) (boxes.Outcome, error)
	Loss(ctx context.Context, box core.Box) ([]boxes.Tip, error)
	Destroy(ctx context.Context, box core.Box) error
}

// Verb is something that is done to boxes one by one.
type Verb struct {
	name, past, usage string
	do                func(Keeper) action
	// next is the verb that undoes it, "" if nobody asks for that.
	next string
}

type action = func(ctx context.Context, box core.Box) (boxes.Outcome, error)

// The verbs.
var (
	Start = Verb{
		name: "start", past: "started", usage: "bring boxes up again; one that runs gets a new token",
		do: func(k Keeper) action {
			return func(ctx context.Context, box core.Box) (boxes.Outcome, error) {
				return boxes.Outcome{State: core.StateRunning}, k.Start(ctx, box)
			}
		},
	}
	Stop = Verb{
		name: "stop", past: "stopped", next: "start", usage: "land the commits of boxes and stop them; their files stay",
		do: func(k Keeper) action { return k.Stop },
	}
	Pause = Verb{
		name: "pause", past: "paused", next: "unpause", usage: "land the commits of boxes and freeze what runs in them",
		do: func(k Keeper) action { return k.Pause },
	}
	Unpause = Verb{
		name: "unpause", past: "unpaused", usage: "let paused boxes go on where they were",
		do: func(k Keeper) action { return k.Unpause },
	}
)

// Options are the options of a verb.
type Options struct {
	Streams *streams.Streams
	Boxes   func(factory.Selection) ([]core.Box, error)
	Keeper  func() (Keeper, error)

	Verb      Verb
	Selection factory.Selection
	JSON      output.JSON
}

// Result is what became of one box.
type Result struct {
	Name core.BoxName `json:"name"`
	ID   string       `json:"id"`
	// State is the box's afterwards, empty where the verb failed; Already
	// tells that nothing had to be done.
	State   core.State `json:"state,omitempty"`
	Already bool       `json:"already,omitempty"`
	// NotLanded are commits that are in the box alone.
	NotLanded []string `json:"notLanded,omitempty"`
	Error     string   `json:"error,omitempty"`
}

// New parses the command line of a verb.
func New(f *factory.Factory, keeper func() (Keeper, error), verb Verb, run func(context.Context, *Options) error) *cli.Command {
	o := &Options{Streams: f.Streams, Boxes: f.Select, Keeper: keeper, Verb: verb}
	return &cli.Command{
		Name: verb.name, Usage: verb.usage, ArgsUsage: "[box…]",
		Flags: append(args.SelectionFlags(&o.Selection), args.JSON(&o.JSON)),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Select(c, f, &o.Selection); err != nil {
				return err
			}
			return run(ctx, o)
		},
	}
}

// Run does the verb to the boxes, some at a time, and tells of each in order.
func Run(ctx context.Context, o *Options) error {
	if err := output.Check[Result](o.JSON); err != nil {
		return err
	}
	all, k, err := find(o.Streams, o.Boxes, o.Keeper, o.Selection)
	if err != nil {
		return err
	}
	results, failed := make([]Result, 0, len(all)), make([]error, len(all))
	each(ctx, all, func(ctx context.Context, box core.Box) (boxes.Outcome, error) { return o.Verb.do(k)(ctx, box) },
		func(i int, done boxes.Outcome, err error) {
			results, failed[i] = append(results, o.told(all[i], done, err)), err
		})
	if o.JSON.On {
		if err := output.List(o.Streams.Out, o.JSON, o.Streams.OutTTY, results); err != nil {
			return err
		}
	}
	return together(o.Verb.name, all, failed)
}

// told tells what became of a box, unless that is wanted as JSON.
func (o *Options) told(box core.Box, done boxes.Outcome, err error) Result {
	r := Result{Name: box.Name, ID: box.ID, NotLanded: tipRows(done.Left)}
	for _, row := range r.NotLanded {
		o.Streams.Warn("not landed, kept in box %s: %s", box.Name, row)
	}
	if err != nil {
		r.Error = err.Error()
		return r
	}
	r.State, r.Already = done.State, done.Already
	if o.JSON.On {
		return r
	}
	fmt.Fprintf(o.Streams.Out, "%s %s\n", o.Verb.past, box.Name)
	if r.Already {
		o.Streams.Note("box %s was %s already", box.Name, done.State)
	} else if o.Verb.next != "" {
		o.Streams.Note("next: agentbox %s %s", o.Verb.next, box.Name)
	}
	return r
}

// find finds the boxes that were chosen, and who does something to them.
func find(s *streams.Streams, choose func(factory.Selection) ([]core.Box, error), keeper func() (Keeper, error), which factory.Selection) ([]core.Box, Keeper, error) {
	all, err := choose(which)
	if err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		s.Note("there is no box")
		return nil, nil, nil
	}
	k, err := keeper()
	return all, k, err
}

// atATime is how many boxes a verb works on together.
const atATime = 4

// each calls do for every box, some at a time, and then told, in order. Once
// the context has ended no further box is begun.
func each[T any](ctx context.Context, all []core.Box, do func(context.Context, core.Box) (T, error), told func(i int, done T, err error)) {
	type result struct {
		done T
		err  error
	}
	results := make([]chan result, len(all))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	var work errgroup.Group
	work.SetLimit(atATime)
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		for i, box := range all {
			work.Go(func() error {
				var r result
				if r.err = context.Cause(ctx); r.err == nil {
					r.done, r.err = do(ctx, box)
				}
				results[i] <- r
				return nil
			})
		}
	}()
	for i := range all {
		r := <-results[i]
		told(i, r.done, r.err)
	}
	<-begun
}

// together is the one error of a verb over several boxes, nil if none failed.
func together(verb string, all []core.Box, failed []error) error {
	var rows []string
	var first error
	for i, err := range failed {
		switch {
		case err == nil:
			continue
		case len(all) == 1 || errors.Is(err, fail.ErrInterrupted):
			return err
		case first == nil:
			first = err
		}
		rows = append(rows, string(all[i].Name)+": "+err.Error())
	}
	if first == nil {
		return nil
	}
	e := fail.Of(first)
	return &fail.Error{Err: fmt.Errorf("%s failed on %d of %d boxes", verb, len(rows), len(all)), Code: e.Code, Next: e.Next, Rows: rows}
}

func tipRows(tips []boxes.Tip) []string {
	var rows []string
	for _, t := range tips {
		rows = append(rows, t.OID.Short()+" of "+t.Ref.Quote())
	}
	return rows
}
