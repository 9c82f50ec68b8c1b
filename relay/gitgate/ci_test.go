package gitgate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/madarco/agentbox/core"
)

// TestCIIsWhatTheRemotesDefaultBranchHolds, not what the box brings; and it is
// named anew once a file of it has changed.
func TestCIIsWhatTheRemotesDefaultBranchHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.user.commit(".github/actions/build/action.yml", "runs: {}\n")
	})
	base := w.record.BaseOID
	tip := w.box.commit(".gitlab-ci.yml", "test: {script: make}\n")
	check(t, w.importTip(w.pack(w.box, tip, base), tip))
	if ci := w.facts(w.gate, base, tip).CI; ci.Digest != "" {
		t.Errorf("an action that nothing calls, and what the box brings: %+v", ci)
	}
	remote := func(path, text string) {
		t.Helper()
		w.user.commit(path, text)
		w.user.git("push", "-q", "origin", "HEAD:main")
		check(t, w.gate.Refresh(t.Context()))
	}
	remote("vendor/x/.github/workflows/ci.yml", "on: push\n")
	remote(".github/workflows/ci.yml", "on: push\n")
	first := w.facts(w.gate, base, tip).CI
	want := []core.Untrusted{".github/actions/build/action.yml", ".github/workflows/ci.yml"}
	if diff := cmp.Diff(want, first.Paths); diff != "" || first.Count != 2 || first.Digest == "" || first.Agreed {
		t.Errorf("%+v\n%s", first, diff)
	}
	remote("README", "more\n")
	if again := w.facts(w.gate, base, tip).CI; again.Digest != first.Digest {
		t.Errorf("another file has changed, and CI is %+v", again)
	}
	remote(".github/workflows/ci.yml", "on: [push]\n")
	if changed := w.facts(w.gate, base, tip).CI; changed.Digest == first.Digest {
		t.Error("changed CI has the same name")
	}
}
