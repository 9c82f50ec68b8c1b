package landing

import (
	"cmp"

	"github.com/madarco/agentbox/core"
)

// State is where one branch stands.
type State struct {
	Repo   string          `json:"repo"`
	Path   core.BoxPath    `json:"path"`
	Branch core.BranchName `json:"branch"`
	// Tip is the branch now, empty while it has no commit.
	Tip core.ObjectID `json:"tip,omitempty"`
	// Landed is the last tip that the relay took.
	Landed core.ObjectID `json:"landed,omitempty"`
	Phase  Phase         `json:"phase"`
	// Problem is why it has not landed.
	Problem string `json:"problem,omitempty"`
}

// Phase is a branch's state in a word.
type Phase string

// The phases. A pending branch is retried by itself, a refused one only when it
// moves or somebody asks.
const (
	Unborn  Phase = "unborn"
	Landed  Phase = "landed"
	Sending Phase = "sending"
	Pending Phase = "pending"
	Refused Phase = "refused"
)

func (q *queue) states(repo Repo) []State {
	var all []State
	for _, b := range q.branches {
		all = append(all, State{
			Repo: repo.Key, Path: repo.Path, Branch: b.name,
			Tip: b.tip, Landed: b.landed, Phase: q.phase(b), Problem: cmp.Or(b.unreadable, b.problem),
		})
	}
	return all
}

func (q *queue) phase(b *branch) Phase {
	switch {
	case b.tip == "":
		return Unborn
	case b.tip == b.landed:
		return Landed
	case b.tip == b.refused:
		return Refused
	case q.inFlight != nil:
		return Sending
	}
	return Pending
}
