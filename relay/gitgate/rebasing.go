package gitgate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/madarco/agentbox/core"
)

// rebasing tells whether the user is in the middle of a rebase of the branch, in
// whatever work tree: HEAD is detached then, and git moves the branch only in the
// end (git-rebase(1)). To move it meanwhile would make the end fail.
func rebasing(user *Repository, branch core.BranchName) (bool, error) {
	trees, err := filepath.Glob(filepath.Join(user.CommonDir, "worktrees", "*"))
	if err != nil {
		return false, err
	}
	for _, tree := range append(trees, user.CommonDir) {
		for _, kind := range []string{"rebase-merge", "rebase-apply"} {
			name, err := os.ReadFile(filepath.Join(tree, kind, "head-name"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, err
			}
			if strings.TrimSpace(string(name)) == branch.Ref() {
				return true, nil
			}
		}
	}
	return false, nil
}
