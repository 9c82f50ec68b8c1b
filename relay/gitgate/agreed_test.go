package gitgate_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
)

// agree lands what a person has said yes to.
func (w *world) agree(branch core.BranchName, tip, old core.ObjectID) wire.Landing {
	w.t.Helper()
	l, err := w.gate.Land(w.t.Context(), relay.LandRequest{Branch: branch, Tip: tip, Agreed: true, Old: old})
	check(w.t, err)
	return l
}

func (w *world) kept() []wire.Landing {
	w.t.Helper()
	kept, err := w.gate.Kept(w.t.Context())
	check(w.t, err)
	return kept
}

func TestAHeldCommitLandsOnceAPersonHasSeenIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	check(t, os.Symlink("/etc/passwd", filepath.Join(w.box.dir, "leads out")))
	bad := w.box.commit("x", "1\n")
	later := w.box.commit("y", "2\n")
	w.land(bad, w.record.BaseOID)
	w.land(later, bad)
	if kept := w.kept(); len(kept) != 1 || kept[0].New != later || kept[0].Status != wire.LandedHeld {
		t.Fatalf("kept %+v", kept)
	}
	if l := w.agree(ownBranch, bad, ""); l.Status != wire.Landed || w.user.ref(ownBranch.Ref()) != bad {
		t.Fatalf("%+v", l)
	}
	// What stands on it holds nothing more, and is still there to land.
	kept := w.kept()
	if len(kept) != 1 || kept[0].New != later || kept[0].Status != wire.Landed {
		t.Fatalf("kept %+v", kept)
	}
	l, err := w.gate.Land(t.Context(), relay.LandRequest{Branch: ownBranch, Tip: later})
	if err != nil || l.Status != wire.Landed || w.user.ref(ownBranch.Ref()) != later || len(w.kept()) != 0 {
		t.Errorf("%+v, %v, kept %+v", l, err, w.kept())
	}
}

// TestAYesIsToWhatWasShown: what has moved since is not overwritten.
func TestAYesIsToWhatWasShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.record.BaseOID
	one := w.box.commit("one", "1\n")
	w.land(one, base)
	two := w.box.commit("two", "2\n")
	theirs := core.ObjectID(w.user.git("commit-tree", string(base)+"^{tree}", "-p", string(base), "-m", "the user's"))
	w.user.git("update-ref", ownBranch.Ref(), string(theirs))
	if l := w.land(two, one); l.Status != wire.LandedDiverged || l.Old != theirs {
		t.Fatalf("%+v", l)
	}
	if l := w.agree(ownBranch, two, one); l.Status != wire.LandedDiverged || w.user.ref(ownBranch.Ref()) != theirs {
		t.Errorf("a yes to another old value: %+v", l)
	}
	// Beside it, and then over it.
	beside := ownBranch + "-2"
	if l := w.agree(beside, two, ""); l.Status != wire.Landed || w.user.ref(beside.Ref()) != two || len(w.kept()) != 0 {
		t.Errorf("beside: %+v, kept %+v", l, w.kept())
	}
	w.user.git("config", "core.logAllRefUpdates", "true")
	if l := w.agree(ownBranch, two, theirs); l.Status != wire.LandedRewritten || w.user.ref(ownBranch.Ref()) != two {
		t.Errorf("over it: %+v", l)
	}
	if old := w.user.id(string(ownBranch) + "@{1}"); old != theirs {
		t.Errorf("the reflog's old tip is %s", old)
	}
	if !w.user.has(theirs) {
		t.Error("the user's commit is gone")
	}
	if w.gateRepo().has(theirs) {
		t.Error("the box can read a commit of the user's that it was never given")
	}
	w.user.git("fsck", "--strict")
	w.gateRepo().git("fsck", "--strict")
}

func TestWhatTheUserBuiltOnIsUpToDate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.box.commit("one", "1\n")
	w.land(one, w.record.BaseOID)
	next := core.ObjectID(w.user.git("commit-tree", string(one)+"^{tree}", "-p", string(one), "-m", "the user's"))
	w.user.git("update-ref", ownBranch.Ref(), string(next))
	// The box's daemon starts anew and hands in what it has.
	if l := w.land(one, w.record.BaseOID); l.Status != wire.LandedUpToDate || w.user.ref(ownBranch.Ref()) != next {
		t.Errorf("%+v", l)
	}
}

// TestACheckedOutBranchIsNeverMoved, not even on a yes, in the main work tree as
// in a linked one.
func TestACheckedOutBranchIsNeverMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.box.commit("one", "1\n")
	w.land(one, w.record.BaseOID)
	two := w.box.commit("two", "2\n")
	w.user.git("checkout", "-q", string(ownBranch))
	w.land(two, one)
	if kept := w.kept(); len(kept) != 1 || kept[0].Status != wire.LandedCheckedOut {
		t.Errorf("kept %+v", kept)
	}
	if l := w.agree(ownBranch, two, one); l.Status != wire.LandedCheckedOut || w.user.ref("HEAD") != one {
		t.Errorf("%+v", l)
	}
	if out := w.user.git("status", "--porcelain"); out != "" {
		t.Errorf("the user's work tree changed:\n%s", out)
	}
	w.user.git("checkout", "-q", "main")
	if kept := w.kept(); len(kept) != 1 || kept[0].Status != wire.Landed {
		t.Errorf("free again: %+v", kept)
	}
}

// TestABranchThatIsBeingRebasedStays: git would fail to end the rebase.
func TestABranchThatIsBeingRebasedStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.box.commit("one", "1\n")
	w.land(one, w.record.BaseOID)
	two := w.box.commit("two", "2\n")
	linked := repo{t, filepath.Join(t.TempDir(), "linked")}
	w.user.git("worktree", "add", "-q", linked.dir, string(ownBranch))
	w.user.commit("one", "in conflict\n")
	if _, err := linked.try("", "rebase", "-q", "main"); err == nil {
		t.Fatal("the rebase did not stop")
	}
	if l := w.land(two, one); l.Status != wire.LandedCheckedOut || w.user.ref(ownBranch.Ref()) != one {
		t.Errorf("%+v", l)
	}
	linked.git("rebase", "--abort")
	linked.git("checkout", "-q", "--detach")
	if l, err := w.gate.Land(t.Context(), relay.LandRequest{Branch: ownBranch, Tip: two}); err != nil || l.Status != wire.Landed {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestALockOfTheUsersGitIsNoRefusal: it is tried again, by whoever asked.
func TestALockOfTheUsersGitIsNoRefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.box.commit("one", "1\n")
	w.land(one, w.record.BaseOID)
	two := w.box.commit("two", "2\n")
	lock := filepath.Join(w.user.dir, ".git", ownBranch.Ref()+".lock")
	check(t, os.WriteFile(lock, nil, 0o600))
	check(t, w.importTip(w.pack(w.box, two, one), two))
	if _, err := w.gate.Land(t.Context(), relay.LandRequest{Branch: ownBranch, Tip: two}); !errors.Is(err, relay.ErrBusy) {
		t.Errorf("got %v", err)
	}
	check(t, os.Remove(lock))
	if l, err := w.gate.Land(t.Context(), relay.LandRequest{Branch: ownBranch, Tip: two}); err != nil || l.Status != wire.Landed {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestOldTipsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var lines strings.Builder
	one := w.box.commit("one", "1\n")
	w.land(one, w.record.BaseOID)
	for i := range 205 {
		lines.WriteString("create refs/box/old/" + strings.Repeat("0", 9) + number(i) + " " + string(one) + "\n")
	}
	w.gateRepo().feed(lines.String(), "update-ref", "--stdin")
	w.box.git("commit", "-q", "--amend", "-m", "better")
	if l := w.land(w.box.id("HEAD"), w.record.BaseOID); l.Status != wire.LandedRewritten {
		t.Fatalf("%+v", l)
	}
	old := strings.Fields(w.gateRepo().git("for-each-ref", "--format=%(refname)", "refs/box/old"))
	if len(old) != 200 || old[199] != "refs/box/old/000000000205" {
		t.Errorf("%d old tips, the last %s", len(old), old[len(old)-1])
	}
}

func number(i int) string {
	return string([]byte{byte('0' + i/100), byte('0' + i/10%10), byte('0' + i%10)})
}
