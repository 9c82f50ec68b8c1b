package gitgate_test

import (
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/relay/gitgate"
)

// TestACreateStartsFewProcesses holds what the making of a box asks git, in the
// order in which a create does it: somebody waits for each start.
func TestACreateStartsFewProcesses(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // nothing of whoever runs the test
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	git, log := recorder(t)
	w := newWorld(t, func(w *world) { w.open(gitgate.Options{Git: git}) })
	starts := func(id string, branch core.BranchName) []string {
		t.Helper()
		ctx := t.Context()
		check(t, os.WriteFile(log, nil, 0o600))
		opened, err := w.host.Open(ctx, w.user.dir)
		check(t, err)
		check(t, w.host.RefreshSeed(ctx, opened))
		if taken, err := w.host.BranchTaken(ctx, opened, branch); err != nil || taken {
			t.Errorf("branch %s taken: %v, %v", branch, taken, err)
		}
		record := opened.Record(branch)
		_, err = w.host.Gate(ctx, core.Box{ID: id, Name: "two", Repos: []core.Repo{record}}, record)
		check(t, err)
		carry, err := w.host.Capture(ctx, opened, gitgate.CaptureOptions{})
		check(t, err)
		filled, err := w.host.SetupRepo(ctx, opened, record, carry, gitgate.Place{})
		check(t, err)
		check(t, carry.WriteSections(ctx, io.Discard))
		if filled.Repo.BaseOID != w.user.id("HEAD") || filled.Symrefs["refs/remotes/origin/HEAD"] != "refs/remotes/origin/main" {
			t.Errorf("the box is told of base %s and remote heads %v", filled.Repo.BaseOID, filled.Symrefs)
		}
		argv, err := os.ReadFile(log)
		check(t, err)
		return verbs(argv)
	}
	// Three to open the repository, one for the gate, four to read the work tree.
	always := []string{"cat-file", "config", "diff-files", "for-each-ref", "ls-files", "ls-files", "ls-tree", "rev-parse"}
	if diff := cmp.Diff(always, starts("b00000002", "agentbox/two")); diff != "" {
		t.Errorf("a box of what the remote has starts other commands:\n%s", diff)
	}
	// The history that only the user has goes into the gate, and into the box.
	w.user.commit("local", "not pushed\n")
	local := []string{"cat-file", "cat-file", "cat-file", "config", "diff-files", "for-each-ref", "ls-files", "ls-files", "ls-tree", "pack-objects", "pack-objects", "rev-parse"}
	if diff := cmp.Diff(local, starts("b00000003", "agentbox/three")); diff != "" {
		t.Errorf("a box of what only the user has starts other commands:\n%s", diff)
	}
}
