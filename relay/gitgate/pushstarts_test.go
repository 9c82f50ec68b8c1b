package gitgate_test

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay/gitgate"
)

// TestAPushStartsFewProcesses holds what a push costs: on a busy machine each
// start of git takes longer than what it does.
func TestAPushStartsFewProcesses(t *testing.T) {
	t.Parallel()
	git, log := recorder(t)
	w := newWorld(t, func(w *world) { w.open(gitgate.Options{Git: git}) })
	one := w.box.commit("one", "1\n")
	w.land(one, w.record.BaseOID)
	two := w.box.commit("one", "2\n") // no new path, which would take a look at all of them
	starts := func(u policy.RefUpdate, without core.ObjectID) []string {
		t.Helper()
		pack := w.pack(w.box, u.New, without)
		check(t, os.WriteFile(log, nil, 0o600))
		check(t, w.take(w.gate, pack, u))
		_, err := w.gate.RemoteURL(t.Context())
		check(t, err)
		f, err := w.gate.Facts(t.Context(), u)
		if err != nil || !f.FastForward || f.Commits != 1 || f.Files != 1 || len(f.Subjects) != 1 {
			t.Errorf("facts %+v, %v", f, err)
		}
		_, err = w.push(u)
		check(t, err)
		w.host.Settle()
		argv, err := os.ReadFile(log)
		check(t, err)
		return verbs(argv)
	}
	for _, c := range []struct {
		what    string
		u       policy.RefUpdate
		without core.ObjectID
		want    []string
	}{
		{
			"a commit that has landed",
			policy.RefUpdate{Ref: ownBranch.Ref(), New: one},
			one,
			[]string{"config", "diff-tree", "log", "ls-tree", "push", "update-ref"},
		},
		{
			"a new commit",
			policy.RefUpdate{Ref: ownBranch.Ref(), Old: one, New: two},
			one,
			[]string{"config", "diff-tree", "log", "pack-objects", "push", "rev-list", "unpack-objects", "unpack-objects", "update-ref"},
		},
	} {
		got := starts(c.u, c.without)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s starts other commands:\n%s", c.what, diff)
		}
	}
}

// verbs are the sorted subcommands of what recorder wrote down.
func verbs(argv []byte) (out []string) {
	known := map[string]bool{}
	for _, v := range []string{"cat-file", "config", "diff-files", "diff-index", "diff-tree", "for-each-ref", "index-pack", "init", "log", "ls-files", "ls-tree", "merge-base", "pack-objects", "push", "receive-pack", "remote", "rev-list", "rev-parse", "symbolic-ref", "unpack-objects", "update-ref"} {
		known[v] = true
	}
	for word := range bytes.SplitSeq(argv, []byte{0}) {
		if known[string(word)] {
			out = append(out, string(word))
		}
	}
	slices.Sort(out)
	return out
}
