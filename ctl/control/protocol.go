// Package control is the protocol of the daemon's Unix socket: one JSON request
// on one line, one JSON answer on one line, and the connection closes.
//
// Invariants:
//   - A request is at most a mebibyte and arrives within ten seconds.
//   - A caller that goes away cancels what it asked for.
package control

import (
	"encoding/json"
	"errors"
	"fmt"
)

// DefaultSocket is where the daemon listens.
const DefaultSocket = "/run/agentbox/ctl.sock"

// The operations. Which fields a request carries beside "op" is each
// operation's own affair.
const (
	// Ping answers "pong": the daemon serves.
	Ping = "ping"
	// Status answers what the daemon does right now.
	Status = "status"
	// Land hands in every commit that has not landed, and answers how it went.
	Land = "land"
)

// ErrUnknownOp is a handler's answer to an operation that it lacks.
var ErrUnknownOp = errors.New("unknown op")

// Request is one request line.
type Request struct {
	Op string `json:"op"`
}

// answer is one answer line.
type answer struct {
	OK    bool            `json:"ok"`
	Data  json.RawMessage `json:"data,omitempty"`
	Error string          `json:"error,omitempty"`
}

func newAnswer(data any, err error) answer {
	if err != nil {
		return answer{Error: err.Error()}
	}
	body, err := json.Marshal(data)
	if err != nil {
		return answer{Error: fmt.Sprintf("encode the answer: %v", err)}
	}
	return answer{OK: true, Data: body}
}
