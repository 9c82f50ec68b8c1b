package landing

import (
	"fmt"

	"github.com/madarco/agentbox/core"
)

// Sanction makes a repository of the list land the branch that the host has
// put the box on, beside the box's own; the one of before no longer lands. An
// empty key means the only repository.
func Sanction(stateDir, key string, branch core.BranchName) error {
	repos, err := ReadList(stateDir)
	if err != nil {
		return err
	}
	for i := range repos {
		r := &repos[i]
		if len(r.Branches) == 0 || r.Key != key && (key != "" || len(repos) > 1) {
			continue
		}
		r.Branches = r.Branches[:1] // the box's own
		if branch != r.Branches[0] {
			r.Branches = append(r.Branches, branch)
		}
		return WriteList(stateDir, repos)
	}
	return fmt.Errorf("land branch %s: the box has no repository %q", branch, key)
}
