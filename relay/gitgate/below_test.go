package gitgate_test

import "testing"

// TestABranchBelowTheBoxsIsAnother: git lists both for the name of the upper one.
func TestABranchBelowTheBoxsIsAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user.git("branch", string(ownBranch)+"/below")
	tip := w.box.commit("one", "1\n")
	check(t, w.importTip(w.pack(w.box, tip, w.record.BaseOID), tip))
	if l, err := w.gate.Look(t.Context(), ownBranch, tip); err != nil || l.Old != "" {
		t.Errorf("the box's branch is taken for the one below it: %+v, %v", l, err)
	}
}
