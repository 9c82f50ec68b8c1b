package gitgate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
)

func TestLand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.record.BaseOID
	one := w.box.commit("one", "1\n")
	two := w.box.commit("two", "2\n")
	w.box.git("commit", "-q", "--amend", "-m", "better")
	amended := w.box.id("HEAD")
	three := w.box.commit("three", "3\n")
	user := w.user

	expect := func(l wire.Landing, status string, old, now core.ObjectID) {
		t.Helper()
		if l.Status != status || l.Old != old {
			t.Errorf("landing: %+v, want %s of %s", l, status, old.Short())
		}
		if got := user.ref(ownBranch.Ref()); got != now {
			t.Errorf("after %s the user's branch is %s, want %s", status, got.Short(), now.Short())
		}
	}
	expect(w.land(base, base), wire.LandedUpToDate, "", "") // no commits, no branch
	expect(w.land(one, base), wire.Landed, "", one)
	expect(w.land(one, base), wire.LandedUpToDate, one, one)
	expect(w.land(two, one), wire.Landed, one, two)
	expect(w.land(amended, one), wire.LandedRewritten, two, amended)
	if !w.gateRepo().has(two) || !strings.Contains(w.gateRepo().git("for-each-ref", "refs/box/old"), string(two)) {
		t.Error("the replaced tip is not kept")
	}
	if log := user.git("reflog", "-1", "--format=%gn", string(ownBranch)); log != "agentbox one" {
		t.Errorf("the reflog names %q", log)
	}

	// The user deletes the branch and collects everything: the incremental
	// pack is not enough any more.
	user.git("branch", "-q", "-D", string(ownBranch))
	user.git("reflog", "expire", "--expire=now", "--all")
	user.git("gc", "-q", "--prune=now")
	if user.has(amended) {
		t.Fatal("the user's gc left the commit")
	}
	expect(w.land(three, amended), wire.Landed, "", three)

	four := w.box.commit("four", "4\n")
	expect(w.land(four, three), wire.Landed, three, four)

	elsewhere := user.git("commit-tree", string(base)+"^{tree}", "-p", string(base), "-m", "the user's")
	user.git("update-ref", ownBranch.Ref(), elsewhere)
	five := w.box.commit("five", "5\n")
	expect(w.land(five, four), wire.LandedDiverged, core.ObjectID(elsewhere), core.ObjectID(elsewhere))
	user.git("update-ref", ownBranch.Ref(), string(four))

	linked := filepath.Join(t.TempDir(), "linked")
	user.git("worktree", "add", "-q", linked, string(ownBranch))
	expect(w.land(five, four), wire.LandedCheckedOut, four, four)
	user.git("worktree", "remove", "--force", linked)
	l, err := w.gate.Land(t.Context(), relay.LandRequest{Branch: ownBranch, Tip: five}) // later, without the pack
	check(t, err)
	expect(l, wire.Landed, four, five)

	left := w.gateRepo().git("for-each-ref", "--format=%(refname)", "refs/box/import", "refs/box/kept")
	if left != "" {
		t.Errorf("refs are left over: %s", left)
	}
	user.git("fsck", "--strict")
}

// TestWhatTheUserTookBackComesAgainOnlyWhenAsked: git calls it a fast-forward
// when a branch that was taken back is moved over the same commits again.
func TestWhatTheUserTookBackComesAgainOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.box.commit("one", "1\n")
	w.land(one, w.record.BaseOID)
	two := w.box.commit("two", "2\n")
	w.land(two, one)
	w.user.git("update-ref", ownBranch.Ref(), string(one))
	three := w.box.commit("three", "3\n")
	if l := w.land(three, two); l.Status != wire.LandedDiverged || l.Old != one || l.New != three || w.user.ref(ownBranch.Ref()) != one {
		t.Fatalf("over what the user took back: %+v", l)
	}
	if l, err := w.gate.Land(t.Context(), relay.LandRequest{Branch: ownBranch, Tip: three, Old: one, Agreed: true}); err != nil || l.Status != wire.Landed {
		t.Fatalf("the user agreed: %+v, %v", l, err)
	}

	// The box takes the user's step back up: nothing comes again.
	w.user.git("update-ref", ownBranch.Ref(), string(one))
	w.box.git("reset", "-q", "--hard", string(one))
	other := w.box.commit("other", "o\n")
	if l := w.land(other, one); l.Status != wire.Landed || l.Old != one {
		t.Errorf("a box that went back too: %+v", l)
	}

	// The user goes forward, and the box builds on that.
	theirs := w.user.git("commit-tree", string(other)+"^{tree}", "-p", string(other), "-m", "the user's")
	w.user.git("update-ref", ownBranch.Ref(), theirs)
	w.box.git("fetch", "-q", w.user.dir, ownBranch.Ref())
	w.box.git("reset", "-q", "--hard", theirs)
	five := w.box.commit("five", "5\n")
	if l := w.land(five, other); l.Status != wire.Landed || string(l.Old) != theirs {
		t.Errorf("on the user's commit: %+v", l)
	}
}

func TestLandOnAnotherBranchMovesForwardOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.record.BaseOID
	w.user.git("branch", "feature")
	one := w.box.commit("one", "1\n")
	w.box.git("commit", "-q", "--amend", "-m", "other")
	other := w.box.id("HEAD")
	for _, c := range []struct {
		tip    core.ObjectID
		status string
		now    core.ObjectID
	}{{one, wire.Landed, one}, {other, wire.LandedDiverged, one}} {
		pack := w.pack(w.box, c.tip, base)
		check(t, w.importTip(pack, c.tip))
		l, err := w.gate.Land(t.Context(), relay.LandRequest{Branch: "feature", Tip: c.tip})
		check(t, err)
		if l.Status != c.status || w.user.ref("refs/heads/feature") != c.now {
			t.Errorf("%+v, want %s", l, c.status)
		}
	}
}

// TestOnlyWhatTheTipReachesLands: what rides in a pack beside a commit stays
// out of the user's repository, where git would come upon it when it tidies up.
func TestOnlyWhatTheTipReachesLands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tip := w.box.commit("one", "1\n")
	stray := core.ObjectID(w.box.feed("stray", "hash-object", "-w", "--stdin"))
	whole := strings.Fields(w.box.git("rev-list", "--objects", "--no-object-names", string(tip), "^"+string(w.record.BaseOID)))
	objects := []core.ObjectID{stray}
	for _, id := range whole {
		objects = append(objects, core.ObjectID(id))
	}
	check(t, w.importTip(w.packOf(w.box, objects...), tip))
	check(t, w.importTip(w.packOf(w.box, stray), tip)) // a commit that is known, with another pack
	if l, err := w.gate.Land(t.Context(), relay.LandRequest{Branch: ownBranch, Tip: tip}); err != nil || l.Status != wire.Landed {
		t.Fatalf("%+v, %v", l, err)
	}
	if w.user.ref(ownBranch.Ref()) != tip || w.user.has(stray) {
		t.Errorf("the branch is at %s, the stray object landed: %v", w.user.ref(ownBranch.Ref()), w.user.has(stray))
	}
}

// TestHeldCommitsStayInTheGate lands nothing that is a trap, nor what stands on it.
func TestHeldCommitsStayInTheGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.record.BaseOID
	before := manifest(t, w.user.dir)
	check(t, os.Symlink("/etc/passwd", filepath.Join(w.box.dir, "leads out")))
	bad := w.box.commit("x", "1\n")
	w.box.git("rm", "-q", "leads out")
	w.box.git("commit", "-q", "-m", "taken back")
	after := w.box.id("HEAD")
	for _, tip := range []core.ObjectID{bad, after} {
		if l := w.land(tip, base); l.Status != wire.LandedHeld || !strings.Contains(l.Detail, "a link into .git or out of the tree") {
			t.Errorf("%+v", l)
		}
	}
	if diff := cmp.Diff(before, manifest(t, w.user.dir)); diff != "" {
		t.Errorf("the user's repository changed:\n%s", diff)
	}
	if !w.gateRepo().has(bad) {
		t.Error("the held commit is gone")
	}
}

func TestRepositoriesAcrossAHistoryOfFolders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.box.commit("x/HEAD", "ref: refs/heads/main\n")
	if l := w.land(first, w.record.BaseOID); l.Status != wire.Landed {
		t.Fatalf("a lone HEAD: %+v", l)
	}
	w.box.commit("x/objects/a", "")
	second := w.box.commit("x/refs/b", "")
	if l := w.land(second, first); l.Status != wire.LandedHeld {
		t.Errorf("a repository in two landings: %+v", l)
	}
}

func TestFacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.record.BaseOID
	w.box.commit("one", "1\n")
	tip := w.box.commit("two", "2\n")
	check(t, w.importTip(w.pack(w.box, tip, base), tip))
	w.box.git("checkout", "-q", "--orphan", "alone")
	alone := w.box.commit("three", "3\n")
	check(t, w.importTip(w.pack(w.box, alone), alone))
	unknown := core.ObjectID(strings.Repeat("a", 40))
	for name, c := range map[string]struct {
		u    policy.RefUpdate
		want policy.Facts
	}{
		"forward":       {policy.RefUpdate{Old: base, New: tip}, policy.Facts{FastForward: true, Commits: 2, Files: 2, Subjects: []core.Untrusted{"change two", "change one"}}},
		"new":           {policy.RefUpdate{New: tip}, policy.Facts{FastForward: true, Commits: 2, Files: 2, Subjects: []core.Untrusted{"change two", "change one"}}},
		"zero":          {policy.RefUpdate{Old: core.ZeroID(40), New: base}, policy.Facts{FastForward: true}},
		"back":          {policy.RefUpdate{Old: tip, New: base}, policy.Facts{Files: 2}},
		"unrelated":     {policy.RefUpdate{New: alone}, policy.Facts{FastForward: true, Commits: 1, Files: 4, Subjects: []core.Untrusted{"change three"}}},
		"old not known": {policy.RefUpdate{Old: unknown, New: tip}, policy.Facts{Commits: 2, Files: 2, Subjects: []core.Untrusted{"change two", "change one"}}},
	} {
		c.u.Ref = "refs/heads/x"
		got, err := w.gate.Facts(t.Context(), c.u)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestGateIsRebuilt: the user's own branch of the box is enough to go on.
func TestGateIsRebuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.box.commit("one", "1\n")
	w.land(one, w.record.BaseOID)
	check(t, os.RemoveAll(w.home.Box(w.rec.ID)))
	check(t, os.RemoveAll(w.home.Seed(w.record.Key)))
	gate, err := w.host.Gate(t.Context(), w.rec, w.record)
	check(t, err)
	w.gate = gate
	two := w.box.commit("two", "2\n")
	if l := w.land(two, one); l.Status != wire.Landed || l.Old != one {
		t.Errorf("%+v", l)
	}
}

func BenchmarkLand(b *testing.B) {
	w := newWorld(b)
	last := w.record.BaseOID
	for b.Loop() {
		b.StopTimer()
		tip := w.box.commit("file", string(last))
		pack := w.pack(w.box, tip, last)
		b.StartTimer()
		check(b, w.importTip(pack, tip))
		l, err := w.gate.Land(b.Context(), relay.LandRequest{Branch: ownBranch, Tip: tip})
		check(b, err)
		if l.Status != wire.Landed {
			b.Fatal(l)
		}
		last = tip
	}
}
