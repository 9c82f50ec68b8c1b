package modelserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// Kind says what a request was for.
type Kind string

// Kinds of requests.
const (
	// Turn is a request in the user's conversation.
	Turn Kind = "turn"
	// Side is a request beside it, such as that for a title.
	Side Kind = "side"
	// Probe is a request that uses no model: is the service there, which
	// models are there, how many tokens is this.
	Probe Kind = "probe"
	// Unknown is a request that this server has no answer for.
	Unknown Kind = "unknown"
	// Refused is a request that was answered with another error.
	Refused Kind = "refused"
)

// Request is one answered request.
type Request struct {
	Script string `json:"script"`
	Kind   Kind   `json:"kind"`
	// Agent is "claude", "codex" or "opencode" as the client names itself, else "".
	Agent   string `json:"agent"`
	Client  string `json:"client"`            // the User-Agent header
	Session string `json:"session,omitempty"` // as far as the agent names one
	// Credential is the key or token that was sent.
	Credential string `json:"credential,omitempty"`
	Method     string `json:"method"`
	Path       string `json:"path"` // below the script's URL
	Status     int    `json:"status"`
	Model      string `json:"model,omitempty"`
	// Prompt is the last text of the user's, cut after 64 KiB.
	Prompt string `json:"prompt,omitempty"`
	// Step is the position of the step that was answered: len(script) after
	// its end, -1 in all requests but turns.
	Step int `json:"step"`
	// Tool is the name of the tool that the answer calls.
	Tool string `json:"tool,omitempty"`
	// Result is the latest tool result in the conversation.
	Result *Result `json:"result,omitempty"`
	// Error says why a request was refused.
	Error string `json:"error,omitempty"`
}

// Result is what an agent says that a step's tool has given.
type Result struct {
	Step   int    `json:"step"`
	Output string `json:"output"` // as the agent words it, cut after 64 KiB
	Failed bool   `json:"failed"` // only Claude Code marks failures
}

const (
	// maxText is how much of a text is recorded, in bytes.
	maxText = 64 << 10
	// maxRequests ends an agent that asks without end.
	maxRequests = 10000
)

func cut(s string) string { return s[:min(len(s), maxText)] }

// Requests lists what was asked so far, in the order of the answers.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Await gives the first request that matches, of those that were answered and
// of those to come. It fails when ctx ends.
func (s *Server) Await(ctx context.Context, match func(Request) bool) (Request, error) {
	for seen := 0; ; {
		s.mu.Lock()
		requests, changed := s.requests, s.changed
		s.mu.Unlock()
		if i := slices.IndexFunc(requests[seen:], match); i >= 0 {
			return requests[seen+i], nil
		}
		seen = len(requests)
		select {
		case <-changed:
		case <-ctx.Done():
			return Request{}, fmt.Errorf("wait for a request to the model server (%d came): %w", seen, context.Cause(ctx))
		}
	}
}

// record keeps a request and wakes those who wait. It tells whether there was
// room.
func (s *Server) record(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) >= maxRequests {
		return
	}
	s.requests = append(s.requests, r)
	close(s.changed)
	s.changed = make(chan struct{})
	if s.log != nil {
		// A log that cannot be written must not change what agents see.
		_ = json.NewEncoder(s.log).Encode(r)
	}
}

func (s *Server) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests) >= maxRequests
}
