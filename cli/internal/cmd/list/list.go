// Package list is the command `agentbox list`.
package list

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/boxes"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/cli/internal/view"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

// Options are the options of list.
type Options struct {
	Streams  *streams.Streams
	Boxes    func() (all []core.Box, project string, err error)
	Provider func(name string) (provider.Provider, error)
	Relay    func() (factory.Relay, error)
	Now      func() time.Time

	All  bool
	JSON output.JSON
}

// New parses the command line of list.
func New(f *factory.Factory, run func(context.Context, *Options) error) *cli.Command {
	o := &Options{Streams: f.Streams, Boxes: f.Boxes, Provider: f.Provider, Relay: f.RunningRelay, Now: f.Now}
	return &cli.Command{
		Name: "list", Aliases: []string{"ls"},
		Usage: "list the boxes of this project",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "boxes of all projects", Destination: &o.All, Local: true},
			args.JSON(&o.JSON),
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Words(c, f, 0, 0); err != nil {
				return err
			}
			return run(ctx, o)
		},
	}
}

// Run lists boxes with the state that their providers report.
func Run(ctx context.Context, o *Options) error {
	if err := output.Check[view.Box](o.JSON); err != nil {
		return err
	}
	all, project, err := o.Boxes()
	if err != nil {
		return err
	}
	if !o.All {
		all = slices.DeleteFunc(all, func(b core.Box) bool { return b.ProjectRoot != project })
	}
	slices.SortStableFunc(all, byProject)
	views := make([]view.Box, len(all))
	for i, s := range boxes.States(ctx, o.Provider, all) {
		views[i] = view.OfBox(all[i], s)
	}
	if len(views) > 0 {
		countWaiting(ctx, o, views)
	}
	if o.JSON.On {
		return output.List(o.Streams.Out, o.JSON, o.Streams.OutTTY, views)
	}
	if len(views) == 0 {
		o.Streams.Note("no box in project %s", project)
		o.Streams.Note("next: agentbox create makes one; agentbox list --all shows those of other projects")
		return nil
	}
	return output.Table(o.Streams.Out, rows(views, o.All, o.Now()))
}

func byProject(a, b core.Box) int {
	if a.ProjectRoot != b.ProjectRoot {
		if a.ProjectRoot < b.ProjectRoot {
			return -1
		}
		return 1
	}
	return a.ProjectIndex - b.ProjectIndex
}

// countWaiting asks the relay, if one runs, what waits for the user.
func countWaiting(ctx context.Context, o *Options, views []view.Box) {
	relay, err := o.Relay()
	if err != nil {
		return
	}
	if waiting, err := relay.Approvals(ctx, ""); err == nil {
		view.CountWaiting(views, waiting)
	}
	if landings, err := relay.Landings(ctx, ""); err == nil {
		view.CountBehind(views, landings)
	}
}

func rows(views []view.Box, all bool, now time.Time) [][]string {
	head := []string{"N", "NAME", "STATE", "WAITS", "BRANCH", "PROVIDER", "AGE"}
	if all {
		head = append(head, "PROJECT")
	}
	out := [][]string{head}
	for _, v := range views {
		row := []string{
			strconv.Itoa(v.Index), string(v.Name), string(v.State), waits(v.Waiting),
			branch(v), v.Provider, output.Age(now.Sub(v.CreatedAt)),
		}
		if all {
			row = append(row, filepath.Clean(v.Project))
		}
		out = append(out, row)
	}
	return out
}

// waits is empty where nothing waits, and a question mark where no relay says.
func waits(n *int) string {
	switch {
	case n == nil:
		return "?"
	case *n == 0:
		return "-"
	default:
		return fmt.Sprintf("%d", *n)
	}
}

// branch is the branch that the box works on, marked while commits of the box have not landed.
func branch(v view.Box) string {
	name := dash(string(cmp.Or(v.On, v.Branch)))
	if v.Behind != nil && *v.Behind > 0 {
		name += " (behind)"
	}
	return name
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
