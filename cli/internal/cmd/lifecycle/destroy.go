package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/boxes"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
)

// DestroyOptions are the options of destroy.
type DestroyOptions struct {
	Streams *streams.Streams
	Boxes   func(factory.Selection) ([]core.Box, error)
	Keeper  func() (Keeper, error)

	Selection factory.Selection
	// Yes answers the question; Force also loses commits that have not landed.
	Yes, Force bool
	JSON       output.JSON
}

// Destroyed is what became of one box.
type Destroyed struct {
	Name core.BoxName `json:"name"`
	ID   string       `json:"id"`
	// Lost are commits that were in the box alone.
	Lost  []string `json:"lost,omitempty"`
	Error string   `json:"error,omitempty"`
}

// NewDestroy parses the command line of destroy.
func NewDestroy(f *factory.Factory, keeper func() (Keeper, error), run func(context.Context, *DestroyOptions) error) *cli.Command {
	o := &DestroyOptions{Streams: f.Streams, Boxes: f.Select, Keeper: keeper}
	return &cli.Command{
		Name: "destroy", Aliases: []string{"rm"},
		Usage:     "remove boxes; what has landed stays in your repository",
		ArgsUsage: "[box…]",
		Description: "It first lands the boxes' commits, and refuses where some would be lost.\n" +
			"Files that are not committed go with the box.",
		Flags: append(args.SelectionFlags(&o.Selection),
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask", Destination: &o.Yes, Local: true},
			&cli.BoolFlag{Name: "force", Usage: "do not ask, and lose commits that have not landed", Destination: &o.Force, Local: true},
			args.JSON(&o.JSON),
		),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Select(c, f, &o.Selection); err != nil {
				return err
			}
			return run(ctx, o)
		},
	}
}

// forceWait bounds how long a destroy by force waits for a box to hand in its
// commits: whoever says force wants the box gone, also one that is silent.
const forceWait = 3 * time.Second

// RunDestroy removes the boxes, unless commits of one would be lost or the
// user says no; then it removes none.
func RunDestroy(ctx context.Context, o *DestroyOptions) error {
	if err := output.Check[Destroyed](o.JSON); err != nil {
		return err
	}
	all, k, err := find(o.Streams, o.Boxes, o.Keeper, o.Selection)
	if err != nil {
		return err
	}
	if len(all) > 0 && !o.Yes && !o.Force && !o.Streams.CanAsk() {
		return fail.Usagef("agentbox destroy --yes "+names(all), "destroy %s: there is no terminal to ask on", names(all))
	}
	losses, err := o.losses(ctx, k, all)
	if err != nil {
		return err
	}
	if len(all) > 0 && !o.Yes && !o.Force {
		yes, err := ask(ctx, o.Streams, all)
		if err != nil || !yes {
			return err
		}
	}
	results, failed := make([]Destroyed, 0, len(all)), make([]error, len(all))
	each(ctx, all, func(ctx context.Context, box core.Box) (struct{}, error) { return struct{}{}, k.Destroy(ctx, box) },
		func(i int, _ struct{}, err error) {
			results, failed[i] = append(results, o.told(all[i], losses[i], err)), err
		})
	if o.JSON.On {
		if err := output.List(o.Streams.Out, o.JSON, o.Streams.OutTTY, results); err != nil {
			return err
		}
	}
	return together("destroy", all, failed)
}

// losses are the commits that would be lost with each box. Without force any
// is an error.
func (o *DestroyOptions) losses(ctx context.Context, k Keeper, all []core.Box) ([][]boxes.Tip, error) {
	losses, refused := make([][]boxes.Tip, len(all)), make([]error, len(all))
	each(ctx, all, func(ctx context.Context, box core.Box) ([]boxes.Tip, error) {
		if o.Force {
			brief, cancel := context.WithTimeout(ctx, forceWait)
			defer cancel()
			ctx = brief
		}
		return k.Loss(ctx, box)
	}, func(i int, loss []boxes.Tip, err error) {
		losses[i] = loss
		switch {
		case !o.Force:
			refused[i] = refuseLoss(all[i], loss, err)
		case err != nil:
			o.Streams.Note("what box %s holds was not looked at: %v", all[i].Name, err)
		}
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return losses, together("destroy", all, refused)
}

// told tells what became of a box, unless that is wanted as JSON.
func (o *DestroyOptions) told(box core.Box, loss []boxes.Tip, err error) Destroyed {
	r := Destroyed{Name: box.Name, ID: box.ID}
	if err != nil {
		r.Error = err.Error()
		return r
	}
	r.Lost = tipRows(loss)
	for _, row := range r.Lost {
		o.Streams.Warn("lost with the box: %s", row)
	}
	if !o.JSON.On {
		fmt.Fprintf(o.Streams.Out, "destroyed %s\n", box.Name)
	}
	if repo, ok := box.Root(); ok {
		o.Streams.Note("anything that it landed stays on branch %s of %s", repo.Branch, repo.WorkTree)
	}
	return r
}

func names(all []core.Box) string {
	var words []string
	for _, box := range all {
		words = append(words, string(box.Name))
	}
	return strings.Join(words, " ")
}

// refuseLoss is the refusal where commits would be lost, or might be.
func refuseLoss(box core.Box, loss []boxes.Tip, err error) error {
	force := fmt.Sprintf("agentbox destroy --force %s loses them", box.Name)
	switch {
	case errors.Is(err, boxes.ErrUnseen):
		return &fail.Error{Err: err, Code: fail.Refused, Next: fmt.Sprintf("agentbox start %s lets them land; %s", box.Name, force)}
	case err != nil:
		return fmt.Errorf("look for commits of box %s that have not landed: %w", box.Name, err)
	case len(loss) > 0:
		return &fail.Error{
			Err: fmt.Errorf("destroy %s: it has commits that are nowhere else", box.Name), Code: fail.Refused, Rows: tipRows(loss),
			Next: keep(box, loss) + "; " + force,
		}
	}
	return nil
}

// keep is what saves commits that are in the box alone: only the box's own
// branch lands, so that those of others have to come there first.
func keep(box core.Box, loss []boxes.Tip) string {
	repo, ok := box.Root()
	elsewhere := func(t boxes.Tip) bool { return string(t.Ref) != "refs/heads/"+string(repo.Branch) }
	if ok && slices.ContainsFunc(loss, elsewhere) {
		return fmt.Sprintf("agentbox shell %s: what is brought into %s there lands", box.Name, repo.Branch)
	}
	return fmt.Sprintf("agentbox land %s says why they did not land", box.Name)
}

// ask asks the user; what is no clear yes is a no.
func ask(ctx context.Context, s *streams.Streams, all []core.Box) (bool, error) {
	for _, box := range all {
		fmt.Fprintf(s.ErrOut, "  %s of %s\n", box.Name, output.Line(box.ProjectRoot))
	}
	answer, err := s.Ask(ctx, "Destroy? Files that are not committed go with it. [y/N] ")
	if err != nil {
		return false, err
	}
	switch strings.ToLower(answer) {
	case "y", "yes":
		return true, nil
	}
	s.Note("nothing was destroyed")
	return false, nil
}
