package gitgate_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/gitgate"
)

func packs(t testing.TB, r repo) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(r.dir, "objects", "pack", "*.pack"))
	check(t, err)
	return len(found)
}

// reader is a git that has opened a store, and answers from it.
type reader struct {
	t   testing.TB
	in  io.WriteCloser
	out *bufio.Reader
}

func newReader(t testing.TB, r repo) *reader {
	t.Helper()
	cmd := exec.Command("git", "-C", r.dir, "cat-file", "--batch-check")
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return &reader{t, in, bufio.NewReader(out)}
}

func (r *reader) has(id core.ObjectID) bool {
	r.t.Helper()
	_, err := fmt.Fprintln(r.in, id)
	check(r.t, err)
	line, err := r.out.ReadString('\n')
	check(r.t, err)
	return !strings.Contains(line, "missing")
}

// TestASeedOfManyPacksIsRolledUp under a box that reads from it, without losing
// what no ref of the seed holds.
func TestASeedOfManyPacksIsRolledUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var tips []core.ObjectID
	for i := range 24 {
		tip := w.user.commit("file", fmt.Sprint(i))
		list := fmt.Sprintf("%s\n^%s~1\n", tip, tip)
		w.user.feed(list, "pack-objects", "-q", "--revs", filepath.Join(w.seed().dir, "objects", "pack", "pack"))
		tips = append(tips, tip) // no ref of the seed holds them
	}
	live := newReader(t, w.seed())
	if !live.has(tips[0]) {
		t.Fatal("the reader does not see the seed")
	}
	before := packs(t, w.seed())
	w.land(w.box.commit("one", "1\n"), w.record.BaseOID)
	check(t, w.host.Tidy(t.Context()))
	if after := packs(t, w.seed()); after >= before {
		t.Errorf("%d packs, then %d", before, after)
	}
	for _, tip := range tips {
		if !live.has(tip) || !w.seed().has(tip) {
			t.Errorf("%s is lost", tip.Short())
		}
	}
	w.seed().git("fsck", "--strict")
	check(t, filepath.WalkDir(filepath.Join(w.seed().dir, "objects"), func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := e.Info(); err == nil && info.Mode().Perm()&0o444 != 0o444 {
			t.Errorf("%s has mode %v, so the box can't read it", path, info.Mode())
		}
		return nil
	}))
}

// TestAGateOfManyPacksIsRepacked without what it borrows.
func TestAGateOfManyPacksIsRepacked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	last := w.record.BaseOID
	for i := range 52 {
		tip := w.box.commit("file", fmt.Sprint(i))
		list := fmt.Sprintf("%s\n^%s\n", tip, last)
		w.box.feed(list, "pack-objects", "-q", "--revs", filepath.Join(w.gateRepo().dir, "objects", "pack", "pack"))
		last = tip
	}
	live := newReader(t, w.gateRepo())
	check(t, w.importTip(w.pack(w.box, last, w.record.BaseOID), last))
	if !live.has(last) {
		t.Fatal("the reader does not see the gate")
	}
	check(t, w.host.Tidy(t.Context()))
	if n := packs(t, w.gateRepo()); n != 1 {
		t.Errorf("%d packs are left", n)
	}
	if !live.has(last) {
		t.Error("a live reader lost the commit")
	}
	if out := w.gateRepo().git("count-objects", "-v"); strings.Contains(out, "in-pack: 0") {
		t.Errorf("the pack is empty:\n%s", out)
	}
	if strings.Contains(packIDs(t, w.gateRepo()), string(w.record.BaseOID)) {
		t.Error("the gate has a copy of what the seed holds")
	}
	if l, err := w.gate.Land(t.Context(), relay.LandRequest{Branch: ownBranch, Tip: last}); err != nil || l.Status != wire.Landed {
		t.Errorf("%+v, %v", l, err)
	}
}

// packIDs lists the objects in the packs of a repository.
func packIDs(t testing.TB, r repo) string {
	t.Helper()
	idx, err := filepath.Glob(filepath.Join(r.dir, "objects", "pack", "*.idx"))
	check(t, err)
	var all strings.Builder
	for _, path := range idx {
		data, err := os.ReadFile(path)
		check(t, err)
		all.WriteString(r.feed(string(data), "show-index"))
	}
	return all.String()
}

func TestPurgeDropsWhatIsOnlyKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone := w.user.commit("file", "to be rewritten")
	w.user.git("push", "-q", "origin", "main")
	check(t, w.gate.Refresh(t.Context()))
	w.user.git("reset", "-q", "--hard", "HEAD~1")
	w.user.git("push", "-q", "-f", "origin", "main")
	check(t, w.gate.Refresh(t.Context()))
	if !w.seed().has(gone) {
		t.Fatal("the seed lost it while a box lives")
	}
	if _, err := w.host.PurgeSeed(t.Context(), w.record.Key); !errors.Is(err, gitgate.ErrInUse) || !w.seed().has(gone) {
		t.Fatalf("while a box lives: %v", err)
	}
	check(t, os.RemoveAll(w.home.Box(w.rec.ID)))
	done, err := w.host.PurgeSeed(t.Context(), w.record.Key)
	if err != nil || done.Before == 0 || done.After >= done.Before {
		t.Errorf("%+v, %v", done, err)
	}
	if w.seed().has(gone) || !w.seed().has(w.record.BaseOID) {
		t.Error("it dropped too little or too much")
	}
	w.seed().git("fsck", "--strict")
	for _, key := range []string{"../../x", "", "0123456789abcdeg"} {
		if _, err := w.host.PurgeSeed(t.Context(), key); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

func TestSweepRemovesWhatTheKilledLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed, gate := w.seed().dir, w.gateRepo().dir
	main := w.seed().git("for-each-ref", "--format=%(refname)", "--count=1", "refs/seed")
	for _, path := range []string{
		seed + ".new-1/HEAD", gate + ".new-2/HEAD", seed + "/objects/pack/tmp_pack_x", seed + "/objects/tmp_objdir-incoming-x/pack/p",
		seed + "/" + main + ".lock", seed + "/packed-refs.lock",
	} {
		check(t, os.MkdirAll(filepath.Dir(path), 0o700))
		check(t, os.WriteFile(path, nil, 0o600))
	}
	before := w.seed().git("for-each-ref")
	check(t, w.host.Sweep(t.Context()))
	for _, dir := range []string{seed, filepath.Dir(seed), filepath.Dir(gate)} {
		left, err := filepath.Glob(filepath.Join(dir, "*.new-*"))
		check(t, err)
		locks, err := filepath.Glob(filepath.Join(dir, "*.lock"))
		check(t, err)
		if dir == seed && len(locks) > 0 || len(left) > 0 {
			t.Errorf("left: %v %v", left, locks)
		}
	}
	if after := w.seed().git("for-each-ref"); after != before {
		t.Errorf("refs were\n%s\nand are\n%s", before, after)
	}
	w.user.commit("file", "more")
	w.user.git("push", "-q", "origin", "main")
	check(t, w.gate.Refresh(t.Context())) // moves the ref that was locked
}
