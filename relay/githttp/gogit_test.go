package githttp_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// TestGoGitClient runs a client that is not git against the same endpoint.
func TestGoGitClient(t *testing.T) {
	g := newRig(t, "sha1", only)
	repo, err := git.PlainCloneContext(t.Context(), g.client, false, &git.CloneOptions{URL: g.url})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := repo.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	who := &object.Signature{Name: "a", Email: "a@example.com", When: time.Unix(1, 0)}
	commit, err := tree.Commit("from go-git", &git.CommitOptions{AllowEmptyCommits: true, Author: who})
	if err != nil {
		t.Fatal(err)
	}
	push := func(spec config.RefSpec) error {
		return repo.PushContext(t.Context(), &git.PushOptions{RefSpecs: []config.RefSpec{spec}})
	}
	if err := push("refs/heads/main:refs/heads/agentbox/one"); err != nil {
		t.Fatal(err)
	}
	if got := g.tip(g.repo.dir, "agentbox/one"); got != commit.String() {
		t.Errorf("pushed %s; want %s", got, commit)
	}
	if err := push("refs/heads/main:refs/heads/agentbox/one"); !errors.Is(err, git.NoErrAlreadyUpToDate) {
		t.Errorf("again: %v", err)
	}
	if err := push("refs/heads/main:refs/heads/main"); err == nil || !strings.Contains(err.Error(), "this box may push only") {
		t.Errorf("main: %v", err)
	}
	g.git(g.repo.dir, "update-ref", "refs/heads/other", "agentbox/one")
	if err := repo.FetchContext(context.WithoutCancel(t.Context()), &git.FetchOptions{}); err != nil {
		t.Errorf("fetch: %v", err)
	}
	if _, err := repo.Reference(plumbing.NewRemoteReferenceName("origin", "other"), true); err != nil {
		t.Errorf("fetched ref: %v", err)
	}
}
