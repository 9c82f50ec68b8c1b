package wire

import "github.com/madarco/agentbox/core"

// SanctionBranch is the body of POST /admin/sanction: the user has put the box
// on this branch of the repository, the project's own if RepoKey is empty. An
// empty Branch, or the box's own, means the box's own alone.
type SanctionBranch struct {
	BoxID   string          `json:"boxId"`
	RepoKey string          `json:"repoKey,omitempty"`
	Branch  core.BranchName `json:"branch,omitempty"`
}
