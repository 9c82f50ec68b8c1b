// Package relay is the command `agentbox relay`: the life of the relay, and
// what it knows.
package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/client"
)

// Daemon is the life of the relay on this machine.
type Daemon interface {
	// Serve runs a relay until ctx ends; ready is called once it answers.
	Serve(ctx context.Context, host string, port int) error
	// Start makes sure of a relay that the user asked for by name.
	Start(ctx context.Context) (wire.Health, error)
	Stop(ctx context.Context) error
	Restart(ctx context.Context) (wire.Health, error)
	// Status wraps client.ErrNotRunning where none answers.
	Status(ctx context.Context) (wire.Health, error)
}

// Options are what the subcommands share.
type Options struct {
	Streams *streams.Streams
	Daemon  Daemon
	Box     func(ref string) (core.Box, error)
	Relay   func(ctx context.Context) (factory.Relay, error)
	// Renew registers a box that runs with a new token and hands it over.
	Renew func(ctx context.Context, box core.Box) error

	Host   string
	Port   int
	Ref    string
	Since  string
	Follow bool
	JSON   output.JSON
}

// New is the command with its subcommands.
func New(f *factory.Factory, d Daemon, renew func(context.Context, core.Box) error) *cli.Command {
	o := &Options{Streams: f.Streams, Daemon: d, Box: f.Box, Relay: f.Relay, Renew: renew}
	sub := func(name, usage, argsUsage string, most int, run func(context.Context, *Options) error, flags ...cli.Flag) *cli.Command {
		return &cli.Command{
			Name: name, Usage: usage, ArgsUsage: argsUsage, Flags: flags,
			Action: func(ctx context.Context, c *cli.Command) error {
				if err := args.Words(c, f, 0, most); err != nil {
					return err
				}
				o.Ref = c.Args().First()
				return run(ctx, o)
			},
		}
	}
	return &cli.Command{
		Name:  "relay",
		Usage: "the service that boxes call on the host: start, stop, look into it",
		Commands: []*cli.Command{
			sub("serve", "run the relay in the foreground", "", 0, RunServe,
				&cli.StringFlag{Name: "host", Usage: "`ADDRESS` of the TCP channel for boxes", Value: "127.0.0.1", Destination: &o.Host, Local: true},
				&cli.IntFlag{Name: "port", Usage: "open a TCP channel for boxes on this `PORT`; 0 opens none", Destination: &o.Port, Local: true}),
			sub("start", "start the relay in the background, if none answers", "", 0, RunStart),
			sub("stop", "stop the relay; pushes that run are finished", "", 0, RunStop),
			sub("restart", "stop the relay and start it again", "", 0, RunRestart),
			sub("status", "show whether the relay answers", "", 0, RunStatus, args.JSON(&o.JSON)),
			sub("register", "register a box that runs anew, with a new token", "[box]", 1, RunRegister),
			sub("forget", "end the relay's service to a box", "<box | id>", 1, RunForget),
			sub("tail", "show what boxes reported", "[box]", 1, RunTail,
				&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until interrupted", Destination: &o.Follow, Local: true},
				&cli.StringFlag{Name: "since", Usage: "begin after this `POSITION`, as --json shows it", Destination: &o.Since, Local: true},
				args.JSON(&o.JSON)),
		},
	}
}

// RunServe runs the relay until it is interrupted or stopped.
func RunServe(ctx context.Context, o *Options) error {
	if o.Port < 0 || o.Port > 65535 {
		return fail.Usagef("", "port %d: a port lies between 0 and 65535", o.Port)
	}
	return o.Daemon.Serve(ctx, o.Host, o.Port)
}

// RunStart starts the relay.
func RunStart(ctx context.Context, o *Options) error { return o.started(o.Daemon.Start(ctx)) }

// RunRestart stops the relay and starts it again.
func RunRestart(ctx context.Context, o *Options) error { return o.started(o.Daemon.Restart(ctx)) }

func (o *Options) started(h wire.Health, err error) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Streams.Out, "relay runs, process %d, version %s\n", h.PID, output.Line(h.Version))
	return err
}

// RunStop stops the relay; none is no error.
func RunStop(ctx context.Context, o *Options) error {
	if err := o.Daemon.Stop(ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintln(o.Streams.Out, "relay stopped")
	return err
}

// Status is what `relay status` shows.
type Status struct {
	Running bool   `json:"running"`
	PID     int    `json:"pid,omitempty"`
	Version string `json:"version,omitempty"`
	// Boxes counts registrations, Waiting what waits for the user.
	Boxes   int `json:"boxes"`
	Waiting int `json:"waiting"`
	// Approvals is "on", or "off" where the user switched them off.
	Approvals string `json:"approvals,omitempty"`
	// Unasked names the boxes with box.autoApproveHostActions.
	Unasked []core.BoxName `json:"unasked,omitempty"`
}

// RunStatus shows the relay; one that does not run is an answer, and exit code
// fail.Relay.
func RunStatus(ctx context.Context, o *Options) error {
	if err := output.Check[Status](o.JSON); err != nil {
		return err
	}
	h, err := o.Daemon.Status(ctx)
	if err != nil && !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	v := Status{err == nil, h.PID, h.Version, h.Boxes, h.Pending, h.Approvals, h.Unasked}
	if o.JSON.On {
		if err := output.One(o.Streams.Out, o.JSON, o.Streams.OutTTY, v); err != nil {
			return err
		}
	} else if err := showStatus(o.Streams, v); err != nil {
		return err
	}
	if !v.Running {
		return fail.Exit(fail.Relay)
	}
	return nil
}

func showStatus(s *streams.Streams, v Status) error {
	if !v.Running {
		_, err := fmt.Fprintln(s.Out, "relay does not run")
		s.Note("next: agentbox relay start; commands that need it do it by themselves")
		return err
	}
	rows := [][]string{
		{"relay", fmt.Sprintf("runs, process %d", v.PID)},
		{"version", v.Version},
		{"boxes", fmt.Sprint(v.Boxes)},
		{"waiting", fmt.Sprint(v.Waiting)},
		{"approvals", v.Approvals},
	}
	if len(v.Unasked) > 0 {
		names := make([]string, len(v.Unasked))
		for i, name := range v.Unasked {
			names[i] = output.Line(string(name))
		}
		rows = append(rows, []string{"never asks", strings.Join(names, ", ")})
	}
	return output.Table(s.Out, rows)
}

// RunRegister registers a box anew and hands it the new token.
func RunRegister(ctx context.Context, o *Options) error {
	box, err := o.Box(o.Ref)
	if err != nil {
		return err
	}
	if err := o.Renew(ctx, box); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Streams.Out, "registered %s\n", box.Name)
	return err
}

// RunForget ends the service to a box, also to one whose record is gone.
func RunForget(ctx context.Context, o *Options) error {
	if o.Ref == "" {
		return fail.Usagef("agentbox relay forget --help", "which box shall the relay forget?")
	}
	id := o.Ref
	box, err := o.Box(o.Ref)
	switch {
	case err == nil:
		id = box.ID
	case !core.ValidBoxID(id):
		return err
	}
	relay, err := o.Relay(ctx)
	if err != nil {
		return err
	}
	if err := relay.Forget(ctx, id); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Streams.Out, "forgot %s\n", id)
	if box.ID != "" {
		o.Streams.Note("the box lands and pushes nothing until: agentbox relay register %s", box.Name)
	}
	return err
}
