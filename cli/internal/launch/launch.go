// Package launch starts a command of the user in a box: a coding agent with
// its keys and without its first-run questions, or anything else.
//
// Where it runs follows from where the user is. On a terminal it gets a session
// that can be left and found again. Without one, and for an agent that is to
// print an answer and end, it gets the plain streams and its exit code is the
// command's own.
package launch

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/session"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/agents"
	wire "github.com/madarco/agentbox/core/session"
)

// Options say how a command is started.
type Options struct {
	Streams *streams.Streams
	// Getenv is the caller's environment.
	Getenv agents.Environment
	// Detach starts a session and leaves it.
	Detach bool
	// Ask leaves the agent's questions about what it may do in place.
	Ask  bool
	JSON output.JSON
}

// Flags are the flags that fill o.
func Flags(o *Options) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "start it and come back at once", Destination: &o.Detach, Local: true},
		&cli.BoolFlag{Name: "ask-permissions", Usage: "let the agent ask before it acts; in a box it need not", Destination: &o.Ask, Local: true},
		args.JSON(&o.JSON),
	}
}

// View is what a start without attaching shows.
type View struct {
	Box     core.BoxName `json:"box"`
	ID      string       `json:"id"`
	Session wire.Name    `json:"session"`
	Agent   string       `json:"agent,omitempty"`
	// Attach is the command that shows the session.
	Attach string `json:"attach"`
}

// Check refuses options that make no sense, before any work is done.
func (o *Options) Check() error {
	if o.JSON.On && !o.Detach {
		return fail.Usagef("add --detach", "--json shows a session that was started; this one would take the terminal")
	}
	return output.Check[View](o.JSON)
}

// Plan is what is to be started.
type Plan struct {
	Request wire.Request
	// Agent is the coding agent, if it is one.
	Agent *agents.Agent
	// Headless: it prints an answer and ends.
	Headless bool
}

// Plan makes a plan of a command of the user. One whose program is a coding
// agent is started as that agent.
func (o *Options) Plan(command []string) Plan {
	plan := Plan{Request: wire.Request{Argv: wire.Line(command), Dir: core.WorkspacePath, Hold: true}}
	if agent, ok := agents.Lookup(command[0]); ok {
		rest := command[1:]
		plan.Agent, plan.Headless = &agent, agent.Headless(rest)
		plan.Request.Name, plan.Request.Agent = wire.Name(agent.Name), agent.Name
		plan.Request.Env = agent.Environ(o.Getenv)
		plan.Request.Argv = agent.Command(agents.Launch{Dir: core.WorkspacePath, Caller: o.Getenv, Ask: o.Ask, Args: rest})
		return plan
	}
	plan.Request.Name = "run"
	if len(command) > 1 {
		plan.Request.Name = wire.NameFor(command[0])
	}
	return plan
}

// CheckKey refuses an agent that nobody could log in: without a key in the
// caller's environment it asks, and here is nobody to answer.
func (o *Options) CheckKey(plan Plan) error {
	if plan.Agent == nil || plan.Agent.Usable(o.Getenv) {
		return nil
	}
	keys := strings.Join(plan.Agent.Keys[:min(4, len(plan.Agent.Keys))], ", ")
	if o.onTerminal() && !plan.Headless {
		o.Streams.Note("%s finds no key in your environment (%s); log in once it runs", plan.Agent.Title, keys)
		return nil
	}
	return fail.Usagef("set one of "+keys, "%s has no key in your environment, and there is no terminal to log in on", plan.Agent.Title)
}

func (o *Options) onTerminal() bool { return o.Streams.InTTY && o.Streams.OutTTY }

// Start starts what is planned in a box that runs.
func (o *Options) Start(ctx context.Context, in session.Execer, box core.Box, plan Plan) error {
	r := plan.Request
	if !o.Detach && (plan.Headless || !o.onTerminal()) {
		return session.Foreground(ctx, o.Streams, in, box, r)
	}
	if err := session.Start(ctx, in, box, r); err != nil {
		return err
	}
	if !o.Detach {
		o.Streams.Note("Ctrl+a d leaves it running; back to it: %s", session.Back(box, r.Name))
		return session.Attach(ctx, o.Streams, in, box, r.Name)
	}
	return o.show(box, r)
}

func (o *Options) show(box core.Box, r wire.Request) error {
	v := View{Box: box.Name, ID: box.ID, Session: r.Name, Agent: r.Agent, Attach: session.Back(box, r.Name)}
	if o.JSON.On {
		return output.One(o.Streams.Out, o.JSON, o.Streams.OutTTY, v)
	}
	if _, err := fmt.Fprintf(o.Streams.Out, "session %s runs in box %s\n", v.Session, v.Box); err != nil {
		return err
	}
	o.Streams.Note("next: %s", v.Attach)
	return nil
}
