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
