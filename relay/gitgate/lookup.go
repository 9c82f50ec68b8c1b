package gitgate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/madarco/agentbox/core"
)

// ErrInTheWay: the user has a branch whose name leaves no room for those of boxes.
var ErrInTheWay = errors.New("a branch stands in the way of the boxes' branches; rename it, for example with: git branch -m")

// BranchTaken tells whether the user or the push remote, as far as known, has
// a branch of this name, or branches below it. The error wraps ErrInTheWay
// where no branch of the kind can be made.
func (h *Host) BranchTaken(ctx context.Context, r *Repository, branch core.BranchName) (bool, error) {
	homes := []string{"refs/heads/"}
	if r.Remote != "" {
		homes = append(homes, "refs/remotes/"+string(r.Remote)+"/")
	}
	parent, _, nested := strings.Cut(string(branch), "/")
	var patterns []string
	for _, home := range homes {
		patterns = append(patterns, home+string(branch))
	}
	if nested {
		patterns = append(patterns, homes[0]+parent)
	}
	refs, err := h.usersRefs(ctx, r, patterns...)
	if err != nil {
		return false, fmt.Errorf("look for branch %s: %w", branch, err)
	}
	for _, ref := range refs {
		if nested && ref.name == homes[0]+parent {
			return false, fmt.Errorf("branch %s: %w %s", parent, ErrInTheWay, parent)
		}
		for _, home := range homes {
			if name, ok := strings.CutPrefix(ref.name, home); ok && (name == string(branch) || strings.HasPrefix(name, string(branch)+"/")) {
				return true, nil
			}
		}
	}
	return false, nil
}

// Missing are those of the commits that neither a ref nor HEAD of the user's
// repository reaches, in the order given.
func (h *Host) Missing(ctx context.Context, repo core.Repo, tips []core.ObjectID) ([]core.ObjectID, error) {
	user, err := (&gate{h: h, repo: repo}).user()
	if err != nil {
		return nil, err
	}
	far, err := h.unreached(ctx, user, tips)
	if err != nil {
		return nil, fmt.Errorf("look for commits in %s: %w", repo.WorkTree, err)
	}
	var missing []core.ObjectID
	for _, tip := range tips {
		if far[tip] {
			missing = append(missing, tip)
		}
	}
	return missing, nil
}

func (h *Host) unreached(ctx context.Context, user *Repository, tips []core.ObjectID) (map[core.ObjectID]bool, error) {
	refs, err := h.listRefs(ctx, h.theirs(user))
	if err != nil {
		return nil, err
	}
	reached := commits(refs)
	head, err := h.run.line(ctx, h.theirs(user, "rev-parse", "-q", "--verify", "HEAD"))
	if err == nil {
		reached = append(reached, core.ObjectID(head))
	} else if exitCode(err) != 1 {
		return nil, err
	}
	have, err := h.existing(ctx, h.theirs(user), tips)
	if err != nil {
		return nil, err
	}
	far, err := h.beyond(ctx, h.theirs(user), have, reached)
	if err != nil {
		return nil, err
	}
	held := map[core.ObjectID]bool{}
	for _, id := range have {
		held[id] = true
	}
	for _, tip := range tips {
		if !held[tip] {
			far[tip] = true
		}
	}
	return far, nil
}

// Version is the git program and its version, for people.
func (h *Host) Version(ctx context.Context) (string, error) {
	out, err := h.run.line(ctx, h.ours("", "version"))
	if err != nil {
		return "", fmt.Errorf("ask git for its version: %w", err)
	}
	return out + ", " + h.run.git, nil
}
