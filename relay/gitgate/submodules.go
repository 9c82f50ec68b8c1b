package gitgate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/madarco/agentbox/core"
)

// Submodules are the paths of the submodules that are checked out in the work
// tree, and the number of those that are not. Only a repository with a
// .gitmodules is asked: without one git itself can do nothing with them.
func (h *Host) Submodules(ctx context.Context, r *Repository) (paths []string, absent int, err error) {
	if _, err := os.Lstat(filepath.Join(r.WorkTree, ".gitmodules")); errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	} else if err != nil {
		return nil, 0, fmt.Errorf("list the submodules of %s: %w", r.WorkTree, err)
	}
	out, err := h.run.run(ctx, h.theirs(r, "ls-files", "-s", "-z"))
	if err != nil {
		return nil, 0, fmt.Errorf("list the submodules of %s: %w", r.WorkTree, err)
	}
	last := ""
	for line := range items(out) {
		e, _, err := parseIndex(line)
		if err != nil {
			return nil, 0, err
		}
		if e.mode != modeGitlink || e.path == last {
			continue
		}
		last = e.path
		if _, err := os.Lstat(filepath.Join(r.WorkTree, e.path, ".git")); err == nil {
			paths = append(paths, e.path)
		} else {
			absent++
		}
	}
	return paths, absent, nil
}

// ErrNoCommit: what the user named is no commit of the repository.
var ErrNoCommit = errors.New("no such commit")

// StartAt makes boxes of the repository start at what the user names, a branch,
// a tag or a commit, instead of HEAD; the work tree then has no part in it.
func (h *Host) StartAt(ctx context.Context, r *Repository, name string) error {
	if name == "" || strings.HasPrefix(name, "-") {
		return fmt.Errorf("start at %q: %w", name, ErrNoCommit)
	}
	id, err := h.run.line(ctx, h.theirs(r, "rev-parse", "-q", "--verify", name+"^{commit}"))
	if code := exitCode(err); code == 1 || code == 128 {
		return fmt.Errorf("start at %q in %s: %w", name, r.WorkTree, ErrNoCommit)
	} else if err != nil {
		return fmt.Errorf("start at %q: %w", name, err)
	}
	if r.Head, err = core.ParseObjectID(id); err != nil {
		return fmt.Errorf("start at %q: %w", name, err)
	}
	r.Branch, r.from = "", name
	if refs, err := h.listRefs(ctx, h.theirs(r), "refs/heads/"+name); err != nil {
		return fmt.Errorf("start at %q: %w", name, err)
	} else if len(refs) == 1 && refs[0].name == "refs/heads/"+name {
		r.Branch = name
	}
	return nil
}
