package gitgate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/gitgate"
)

// busyBox is a box that reads from the seed as a real one does, and commits as
// fast as it can.
type busyBox struct {
	repo
	gate   relay.Gate
	branch core.BranchName
	key    string
	base   core.ObjectID
	tip    core.ObjectID
	landed core.ObjectID
}

func (w *world) newBusyBox(n int) *busyBox {
	w.t.Helper()
	b := &busyBox{branch: core.BranchName(fmt.Sprintf("agentbox/busy-%d", n))}
	rec, record, gate := w.newBox(fmt.Sprintf("b%08d", 100+n), b.branch)
	b.gate, b.key, b.base, b.landed = gate, record.Key, record.BaseOID, record.BaseOID
	b.repo = repo{w.t, filepath.Join(w.t.TempDir(), rec.ID)}
	repo{w.t, "/"}.git("init", "-q", "-b", "work", b.dir)
	check(w.t, os.WriteFile(filepath.Join(b.dir, ".git", "objects", "info", "alternates"), []byte(w.host.SeedObjects(record.Key)+"\n"), 0o600))
	b.git("update-ref", "refs/heads/work", string(b.base))
	return b
}

// advance makes one commit, or instead rewrites what the box has.
func (b *busyBox) advance(n int) error {
	from, mark := "refs/heads/work^0", ""
	if n%5 == 4 {
		from, mark = string(b.base), "rewritten "
	}
	text := fmt.Sprintf("change %s%d of %s", mark, n, b.branch)
	stream := fmt.Sprintf("commit refs/heads/work\ncommitter A <a@example.com> %d +0000\ndata %d\n%s\nfrom %s\nM 100644 inline dir/%d/file\ndata %d\n%s\n\n",
		1_700_000_000+n, len(text), text, from, n%7, len(text), text)
	if _, err := b.try(stream, "fast-import", "--quiet", "--force"); err != nil {
		return err
	}
	out, err := b.try("", "rev-parse", "work")
	b.tip = core.ObjectID(strings.TrimSpace(out))
	return err
}

// handIn does what the box's daemon and the relay do together.
func (b *busyBox) handIn(ctx context.Context) (wire.Landing, error) {
	for without := b.landed; ; without = b.base {
		err := b.send(ctx, without)
		if errors.Is(err, relay.ErrRejected) && without != b.base {
			continue // the gate may have dropped what a rewrite left behind
		}
		if err != nil {
			return wire.Landing{}, fmt.Errorf("import: %w", err)
		}
		break
	}
	for {
		l, err := b.gate.Land(ctx, relay.LandRequest{Branch: b.branch, Tip: b.tip})
		if errors.Is(err, relay.ErrBusy) && ctx.Err() == nil {
			continue // the daemon would try again
		}
		if err == nil {
			b.landed = b.tip
		}
		return l, err
	}
}

func (b *busyBox) send(ctx context.Context, without core.ObjectID) error {
	pack, err := b.try(fmt.Sprintf("%s\n^%s\n^%s\n", b.tip, without, b.base), "pack-objects", "--revs", "--thin", "--stdout", "-q", "--delta-base-offset")
	if err != nil {
		return err
	}
	return b.gate.Import(ctx, strings.NewReader(pack), []policy.RefUpdate{{Ref: wire.LandingPrefix + string(b.branch), New: b.tip}})
}

// TestManyBoxesLandUnderLoad: boxes of one project commit as fast as they can
// while the user commits, tidies up without mercy and deletes branches, the
// remote moves, and the stores are repacked under all of them. In the end every
// box's last commit is with the user, and nothing is broken or lost.
func TestManyBoxesLandUnderLoad(t *testing.T) {
	boxes, rounds := 3, 6
	if os.Getenv("AGENTBOX_LONG") != "" {
		boxes, rounds = 6, 150
	}
	w := newWorld(t, func(w *world) {
		w.open(gitgate.Options{Pieces: gitgate.Pieces{SeedPacks: 2, GatePacks: 1, GateLoose: 8}})
	})
	all := make([]*busyBox, boxes)
	for i := range all {
		all[i] = w.newBusyBox(i)
	}
	var working, around sync.WaitGroup
	done := make(chan struct{})
	for _, b := range all {
		working.Go(func() {
			for n := range rounds {
				if err := b.advance(n); err != nil {
					t.Error(err)
					return
				}
				l, err := b.handIn(t.Context())
				if err != nil || !l.Here() {
					t.Errorf("%s, commit %d: %+v, %v", b.branch, n, l, err)
					return
				}
			}
		})
	}
	go func() { working.Wait(); close(done) }()
	meanwhile := func(what string, act func(n int) error) {
		around.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				if err := act(n); err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}
	meanwhile("the user", func(n int) error { return w.userAtWork(n, all[0].branch) })
	meanwhile("maintenance", func(int) error { return w.host.Tidy(t.Context()) })
	meanwhile("a fetch", func(int) error { return all[len(all)-1].gate.Refresh(t.Context()) })
	around.Wait()
	for _, b := range all {
		if l, err := b.handIn(t.Context()); err != nil || !l.Here() { // the user may have deleted it last
			t.Errorf("%s: %+v, %v", b.branch, l, err)
		}
		if got := w.user.ref(b.branch.Ref()); got != b.tip {
			t.Errorf("%s is at %s with the user, at %s in the box", b.branch, got.Short(), b.tip.Short())
		}
		b.git("fsck", "--strict")
		repo{t, w.home.Gate(strings.TrimSuffix(filepath.Base(b.dir), ".git"), b.key)}.git("fsck", "--strict")
	}
	w.user.git("gc", "-q", "--prune=now")
	w.user.git("fsck", "--strict")
	w.seed().git("fsck", "--strict")
	if n := w.user.git("rev-list", "--count", "main"); n == "1" {
		t.Error("the user did nothing meanwhile")
	}
}

// userAtWork is one thing that a user does.
func (w *world) userAtWork(n int, branch core.BranchName) error {
	commit := func() error {
		if err := os.WriteFile(filepath.Join(w.user.dir, "README"), fmt.Append(nil, n), 0o600); err != nil {
			return err
		}
		_, err := w.user.try("", "commit", "-q", "-a", "-m", "the user's")
		return err
	}
	switch n % 5 {
	case 0, 2:
		return commit()
	case 1:
		_, err := w.user.try("", "push", "-q", "origin", "main")
		return err
	case 4:
		_, _ = w.user.try("", "branch", "-q", "-D", string(branch)) // it may not be there, or be moving
	}
	// Git gives no promise to a gc that prunes at once while others write: it
	// may meet a commit whose tree it took before, until that is sent again.
	_, _ = w.user.try("", "gc", "-q", "--prune=now")
	return nil
}
