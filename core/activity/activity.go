// Package activity reads from a box's status what the agents in it do.
//
// Invariant: the status is the box's word. It can keep a box from being paused
// or get it paused, and nothing else.
package activity

import (
	"encoding/json"
	"time"

	"github.com/madarco/agentbox/core/agents"
)

// State is what an agent does, as its own hooks tell.
type State string

// The states. Waiting, Question, EndPlan and Error need a person.
const (
	Working    State = "working"
	Compacting State = "compacting"
	Idle       State = "idle"
	Waiting    State = "waiting"
	Question   State = "question"
	EndPlan    State = "end-plan"
	Error      State = "error"
)

var known = map[State]bool{Working: true, Compacting: true, Idle: true, Waiting: true, Question: true, EndPlan: true, Error: true}

// Agent is one agent in a box.
type Agent struct {
	Name  string
	State State
	// Since is when the state began; zero where the box does not say.
	Since time.Time
}

// Agents are those of a status snapshot that have a state, in the order of
// package agents. What can't be read has none.
func Agents(snapshot json.RawMessage) []Agent {
	var fields map[string]json.RawMessage
	if json.Unmarshal(snapshot, &fields) != nil {
		return nil
	}
	var found []Agent
	for _, a := range agents.All {
		var told struct {
			State     State  `json:"state"`
			UpdatedAt string `json:"updatedAt"`
		}
		if json.Unmarshal(fields[a.Name], &told) != nil || !known[told.State] {
			continue
		}
		since, err := time.Parse(time.RFC3339, told.UpdatedAt)
		if err != nil {
			since = time.Time{}
		}
		found = append(found, Agent{Name: a.Name, State: told.State, Since: since})
	}
	return found
}

// Active is the agent that a person means: one that is at work, else the one
// whose state is the newest.
func Active(all []Agent) (Agent, bool) {
	var best Agent
	for i, a := range all {
		if a.State == Working || a.State == Compacting {
			return a, true
		}
		if i == 0 || a.Since.After(best.Since) {
			best = a
		}
	}
	return best, len(all) > 0
}

// IdleSince is when the last of the agents settled. ok is false while one does
// something or needs a person, where one does not say since when, and where
// there is none.
func IdleSince(all []Agent) (since time.Time, ok bool) {
	for _, a := range all {
		if a.State != Idle || a.Since.IsZero() {
			return time.Time{}, false
		}
		if a.Since.After(since) {
			since = a.Since
		}
	}
	return since, len(all) > 0
}
