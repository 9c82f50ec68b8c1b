package bridge

import (
	"encoding/json"
	"time"

	"github.com/madarco/agentbox/core/wire"
)

// ExitFull tells a caller in the box that too many requests are parked already
// (EX_TEMPFAIL of sysexits.h).
const ExitFull = 75

// Action is a parked request, as a poll hands it out.
type Action struct {
	ID    string `json:"id"`
	BoxID string `json:"boxId"`
	// RequestID is what the host keeps the result under: the caller's, or ID.
	RequestID string          `json:"requestId"`
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params,omitempty"`
	CreatedAt time.Time       `json:"createdAt"`
}

// Cursor is what a host has seen of a box: of which life of its relay, up to
// which event, which version of the status and of the logins.
type Cursor struct {
	Instance    string `json:"instance,omitempty"`
	Events      int64  `json:"events,omitempty"`
	Status      int64  `json:"status,omitempty"`
	Credentials int64  `json:"credentials,omitempty"`
}

// Poll answers GET /bridge/poll. One that was asked with another instance than
// this one holds nothing else, and nothing was handed out.
type Poll struct {
	Instance string   `json:"instance"`
	Actions  []Action `json:"actions"`
	// Cancelled are actions, handed out before, that nobody waits for any longer.
	Cancelled []string `json:"cancelled,omitempty"`
	// Events are those after the asked since, in order; Cursor is the last one's
	// number, or since.
	Events []wire.Event `json:"events"`
	Cursor int64        `json:"cursor"`
	// Status is the newest one, null when the host has it.
	Status        json.RawMessage `json:"status"`
	StatusVersion int64           `json:"statusVersion"`
	// Credentials are the payloads of credentials-updated that the host does not
	// have, at most one per agent.
	Credentials        []json.RawMessage `json:"credentials,omitempty"`
	CredentialsVersion int64             `json:"credentialsVersion"`
}

// brings tells whether there is something in it.
func (p *Poll) brings() bool {
	return len(p.Actions)+len(p.Cancelled)+len(p.Events)+len(p.Credentials) > 0 || p.Status != nil
}

// Result is the body of POST /bridge/action-result.
type Result struct {
	ID string `json:"id"`
	wire.Envelope
}

// Beat is the body of POST /bridge/heartbeat: the host works on these actions,
// or is about to begin.
type Beat struct {
	IDs []string `json:"ids"`
}

// Wanted answers a Beat: those of them that somebody still waits for.
type Wanted struct {
	IDs []string `json:"ids"`
}

// Health answers GET /bridge/healthz.
type Health struct {
	OK     bool `json:"ok"`
	Queued int  `json:"queued"`
	Events int  `json:"events"`
}
