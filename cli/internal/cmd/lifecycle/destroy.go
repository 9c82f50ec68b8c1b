package lifecycle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/boxes"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
)

// DestroyOptions are the options of destroy.
type DestroyOptions struct {
	Options
	// Yes answers the question; Force also loses commits that have not landed.
	Yes, Force bool
}

// NewDestroy parses the command line of destroy.
func NewDestroy(f *factory.Factory, keeper func() (Keeper, error), run func(context.Context, *DestroyOptions) error) *cli.Command {
	o := &DestroyOptions{Options: Options{Streams: f.Streams, Box: f.Box, Keeper: keeper}}
	return &cli.Command{
		Name: "destroy", Aliases: []string{"rm"},
		Usage:     "remove a box; what has landed stays in your repository",
		ArgsUsage: "[box]",
		Description: "It first lands the box's commits, and refuses where some would be lost.\n" +
			"Files that are not committed go with the box.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask", Destination: &o.Yes, Local: true},
			&cli.BoolFlag{Name: "force", Usage: "do not ask, and lose commits that have not landed", Destination: &o.Force, Local: true},
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

// RunDestroy removes the box, unless commits would be lost or the user says no.
func RunDestroy(ctx context.Context, o *DestroyOptions) error {
	box, k, err := o.find()
	if err != nil {
		return err
	}
	if !o.Yes && !o.Force && !o.Streams.CanAsk() {
		return fail.Usagef(fmt.Sprintf("agentbox destroy --yes %s", box.Name), "destroy %s: there is no terminal to ask on", box.Name)
	}
	loss, err := k.Loss(ctx, box)
	if !o.Force {
		if err := refuseLoss(box, loss, err); err != nil {
			return err
		}
	}
	if !o.Yes && !o.Force {
		yes, err := ask(ctx, o.Streams, box)
		if err != nil || !yes {
			return err
		}
	}
	if err := k.Destroy(ctx, box); err != nil {
		return err
	}
	for _, row := range tipRows(loss) {
		o.Streams.Warn("lost with the box: %s", row)
	}
	_, err = fmt.Fprintf(o.Streams.Out, "destroyed %s\n", box.Name)
	if repo, ok := box.Root(); ok {
		o.Streams.Note("anything that it landed stays on branch %s of %s", repo.Branch, repo.WorkTree)
	}
	return err
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
func ask(ctx context.Context, s *streams.Streams, box core.Box) (bool, error) {
	fmt.Fprintf(s.ErrOut, "Destroy box %s of %s? Files that are not committed go with it. [y/N] ", box.Name, box.ProjectRoot)
	answer := make(chan string, 1)
	go func() { // ends with the process if the user never answers
		line, _ := bufio.NewReader(s.In).ReadString('\n') //nolint:errcheck // the end of input is a no
		answer <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(s.ErrOut)
		return false, context.Cause(ctx)
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return true, nil
		}
		s.Note("nothing was destroyed")
		return false, nil
	}
}
