package relay

import (
	"context"
	"encoding/json"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// Method is one RPC that a box may call, beside git's own. Implementations are
// safe for concurrent use.
type Method interface {
	// Prepare decodes and validates params, finds the facts, and lays aside what
	// the box could change before it is done. It does nothing that lasts outside
	// the relay's own folders. A *Refusal tells the box why not.
	Prepare(ctx context.Context, call Call) (Action, error)
	// Do does a request that Prepare made, from its JSON alone. It calls started
	// with the process id of a child before that may do anything that lasts.
	Do(ctx context.Context, call Call, started func(pid int) error) store.Outcome
	// Resume ends a request whose Do was cut by the end of the relay: by doing it
	// again where that can't do harm, else by saying that nobody knows.
	Resume(ctx context.Context, call Call) store.Outcome
}

// Offer is a Method that makes no box wait: where the user is to be asked, the
// box has the answer at once, and the relay does it after a yes.
type Offer interface {
	Method
	// Answer is what the box is told when the question was put.
	Answer() wire.Envelope
}

// Call is an RPC of a box.
type Call struct {
	Box    core.Box
	Method string
	// Body is what the box sent, for Prepare; for Do and Resume the JSON of
	// Action.Request.
	Body json.RawMessage
	// ByUser tells that the user does it, on the host.
	ByUser bool
}

// Action is one request, understood.
type Action struct {
	Kind  policy.Action
	Facts policy.ActionFacts
	// Request is all that has an effect. Its JSON is what is hashed, approved,
	// written down and done; it never holds a secret.
	Request any
	// Message is one line of ours for the user, made of facts.
	Message string
	// Show is what else the user is shown.
	Show *wire.ActionApproval
	// Serial names what may only be worked on once at a time, such as a
	// repository's key; empty means only the very same request. The JSON of
	// Request then has it as "repo".
	Serial string
	// TTL bounds the question; zero means the relay's own bound.
	TTL time.Duration
}

// Refusal is why a request is not done: Code is one of the exit codes of package
// wire, Text is for the box to read.
type Refusal struct {
	Code int
	Text string
}

func (r *Refusal) Error() string { return r.Text }

// Boxes reaches into boxes, whatever makes them.
type Boxes interface {
	// Exec runs argv in a box, as provider.Provider does.
	Exec(ctx context.Context, box core.Box, req provider.ExecRequest) (int, error)
}
