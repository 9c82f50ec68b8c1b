package wire

import "github.com/madarco/agentbox/core"

// Registry answers GET /admin/registry.
type Registry struct {
	Boxes []RegisteredBox `json:"boxes"`
}

// Prompts answers GET /admin/prompts: what waits for the user, is allowed and
// not used yet, runs, or was not answered in time; with all=1 also the rest.
type Prompts struct {
	Prompts []Approval `json:"prompts"`
}

// EventList answers GET /admin/events. Next is the since of the next request:
// a number where one box was asked for, else an opaque cursor.
type EventList struct {
	Events []Event `json:"events"`
	Next   string  `json:"next"`
}

// AuditList answers GET /admin/audit.
type AuditList struct {
	Entries []AuditEntry `json:"entries"`
}

// Landings answers POST /admin/land, one result per tip of the hand-in.
type Landings struct {
	Landings []LandingResult `json:"landings"`
}

// LandingResult tells what became of one tip.
type LandingResult struct {
	RepoKey  string          `json:"repoKey"`
	Branch   core.BranchName `json:"branch"`
	Tip      core.ObjectID   `json:"tip"`
	Envelope Envelope        `json:"envelope"`
}

// AskLanding is the body of POST /admin/land/ask: the user wants to see, and then
// decide, what moves where when the newest handed-in commit of Branch, the box's
// own if empty, lands on the user's branch As, of the same name if empty. Tip
// names a commit that was handed in for this.
type AskLanding struct {
	BoxID   string          `json:"boxId"`
	RepoKey string          `json:"repoKey,omitempty"`
	Branch  core.BranchName `json:"branch,omitempty"`
	Tip     core.ObjectID   `json:"tip,omitempty"`
	As      core.BranchName `json:"as,omitempty"`
}

// AskedLanding answers it. Approval is the question, absent where nothing can
// move; Landing says why.
type AskedLanding struct {
	Landing  Landing   `json:"landing"`
	Approval *Approval `json:"approval,omitempty"`
}

// Waiting answers GET /admin/landings: what was handed in and has not landed.
type Waiting struct {
	Landings []WaitingLanding `json:"landings"`
}

// WaitingLanding is one of them, as it would end now.
type WaitingLanding struct {
	BoxID   string `json:"boxId"`
	RepoKey string `json:"repoKey"`
	Landing
}
