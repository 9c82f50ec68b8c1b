// Package status is the command `agentbox status`: one box, and what needs the
// user in it.
package status

import (
	"context"
	"fmt"
	"slices"
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
	"github.com/madarco/agentbox/core/wire"
)

// Options are the options of status.
type Options struct {
	Streams  *streams.Streams
	Box      func(ref string) (core.Box, error)
	Provider func(name string) (provider.Provider, error)
	Relay    func() (factory.Relay, error)
	Now      func() time.Time

	Ref  string
	JSON output.JSON
}

// View is what status shows.
type View struct {
	view.Box
	// Relay is "running" or "stopped".
	Relay     string          `json:"relay"`
	Approvals []view.Approval `json:"approvals"`
	// Health lists what is wrong, each with what to do.
	Health []view.Problem `json:"health"`
}

// New parses the command line of status.
func New(f *factory.Factory, run func(context.Context, *Options) error) *cli.Command {
	o := &Options{Streams: f.Streams, Box: f.Box, Provider: f.Provider, Relay: f.RunningRelay, Now: f.Now}
	return &cli.Command{
		Name:      "status",
		Usage:     "show one box and what needs you in it",
		ArgsUsage: "[box]",
		Flags:     []cli.Flag{args.JSON(&o.JSON)},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Words(c, f, 0, 1); err != nil {
				return err
			}
			o.Ref = c.Args().First()
			return run(ctx, o)
		},
	}
}

// Run shows the box.
func Run(ctx context.Context, o *Options) error {
	if err := output.Check[View](o.JSON); err != nil {
		return err
	}
	box, err := o.Box(o.Ref)
	if err != nil {
		return err
	}
	v := View{
		Box:       view.OfBox(box, boxes.States(ctx, o.Provider, []core.Box{box})[0]),
		Approvals: []view.Approval{}, Health: []view.Problem{}, Relay: "stopped",
	}
	askRelay(ctx, o, box, &v)
	v.Health = append(v.Health, problems(v)...)
	if o.JSON.On {
		return output.One(o.Streams.Out, o.JSON, o.Streams.OutTTY, v)
	}
	return show(o, v)
}

// askRelay fills in what the relay knows, if one runs.
func askRelay(ctx context.Context, o *Options, box core.Box, v *View) {
	relay, err := o.Relay()
	if err != nil {
		return
	}
	waiting, err := relay.Approvals(ctx, v.ID)
	if err != nil {
		return
	}
	v.Relay = "running"
	waiting = slices.DeleteFunc(waiting, func(a wire.Approval) bool { return a.State != wire.Pending })
	for _, a := range waiting {
		v.Approvals = append(v.Approvals, view.OfApproval(a))
	}
	n := len(waiting)
	v.Waiting = &n
	landings, err := relay.Landings(ctx, v.ID)
	if err != nil {
		return
	}
	for _, l := range landings {
		v.Health = append(v.Health, view.OfLanding(box, l))
	}
	behind := len(landings)
	v.Behind = &behind
}

// problems judges what was found.
func problems(v View) []view.Problem {
	var out []view.Problem
	switch v.State {
	case core.StateCreating:
		out = append(out, view.Problem{What: "it is being created, or its create was killed", Next: fmt.Sprintf("agentbox destroy %s, if no create runs", v.Name)})
	case core.StateStopped, core.StatePaused:
		out = append(out, view.Problem{What: "it does not run", Next: fmt.Sprintf("agentbox start %s", v.Name)})
	case core.StateMissing:
		out = append(out, view.Problem{What: "the provider has no such box any more", Next: fmt.Sprintf("agentbox destroy %s removes what is left", v.Name)})
	case core.StateUnknown:
		out = append(out, view.Problem{What: "the provider could not be asked", Next: "agentbox doctor"})
	}
	if v.Relay != "running" && v.State == core.StateRunning {
		out = append(out, view.Problem{What: "no relay answers: its commits and pushes wait", Next: "agentbox relay start"})
	}
	return out
}

func show(o *Options, v View) error {
	rows := [][]string{
		{"box", fmt.Sprintf("%s (number %d, id %s)", v.Name, v.Index, v.ID)},
		{"state", string(v.State)},
		{"project", v.Project},
	}
	for _, row := range [][2]string{
		{"branch", v.WorksOn()},
		{"from", from(v.Box)},
		{"remote", v.Remote},
		{"provider", v.Provider},
		{"container", v.Container},
		{"image", v.Image},
		{"network", v.Network},
		{"profile", v.Profile},
		{"approvals", v.Questions()},
		{"created", output.Age(o.Now().Sub(v.CreatedAt)) + " ago"},
		{"relay", v.Relay},
	} {
		if row[1] != "" {
			rows = append(rows, []string{row[0], row[1]})
		}
	}
	if err := output.Table(o.Streams.Out, rows); err != nil {
		return err
	}
	if len(v.Approvals) > 0 {
		fmt.Fprintf(o.Streams.Out, "\nwaits for you:\n")
	}
	for _, a := range v.Approvals {
		view.Describe(o.Streams.Out, a, o.Now())
	}
	if len(v.Approvals) > 0 {
		o.Streams.Note("%s", view.NextAnswer)
	}
	for _, p := range v.Health {
		o.Streams.Warn("%s; next: %s", p.What, p.Next)
	}
	return nil
}

func from(b view.Box) string {
	switch {
	case b.Base != "":
		return fmt.Sprintf("%s at %s", b.Base, b.BaseOID.Short())
	case b.BaseOID != "":
		return b.BaseOID.Short()
	default:
		return ""
	}
}
