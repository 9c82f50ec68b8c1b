package gitgate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Pieces says from how many packs and loose objects on a store is repacked: git
// looks into every pack for an object that it does not find, and lists every
// folder of loose ones.
type Pieces struct{ SeedPacks, GatePacks, GateLoose int }

// DefaultPieces suit the product.
var DefaultPieces = Pieces{SeedPacks: 20, GatePacks: 50, GateLoose: 2000}

// settleTime is how long after a change stores are looked at: what makes one
// landing rarely comes alone, and the next must not wait.
const settleTime = 10 * time.Second

// chores are the gates that have changed since they were last looked at.
type chores struct {
	mu    sync.Mutex
	gates map[string]*gate
	wake  chan struct{} // holds one
}

func newChores() chores { return chores{gates: map[string]*gate{}, wake: make(chan struct{}, 1)} }

func (c *chores) add(g *gate) {
	c.mu.Lock()
	c.gates[g.dir] = g
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *chores) take() map[string]*gate {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.gates
	c.gates = map[string]*gate{}
	return taken
}

// Maintain tidies what this process changes until ctx ends. What fails is logged
// and tried again after the next change.
func (h *Host) Maintain(ctx context.Context, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.chores.wake:
		}
		if rest(ctx, settleTime) != nil {
			return
		}
		if err := h.Tidy(ctx); err != nil && ctx.Err() == nil {
			log.Error("tidy the stores of commits", "err", err)
		}
	}
}

// Tidy repacks the gates that this process has changed, and the seeds that they
// borrow from, where they have become many pieces. No object that a ref holds is
// lost, and of a seed none at all: a box may have built on it.
func (h *Host) Tidy(ctx context.Context) error {
	var all error
	seeds := map[string]bool{}
	for _, g := range h.chores.take() {
		if err := g.tidy(ctx); err != nil {
			all = errors.Join(all, fmt.Errorf("repack the gate of box %s: %w", g.box.Name, err))
		}
		if !seeds[g.repo.Key] {
			seeds[g.repo.Key] = true
			if err := h.tidySeed(ctx, g.repo.Key); err != nil {
				all = errors.Join(all, fmt.Errorf("repack the seed store %s: %w", g.repo.Key, err))
			}
		}
	}
	return all
}

// holdings is what an object store consists of.
type holdings struct {
	packs, loose int
	bytes        int64
}

// holdingsOf measures an object store. What a concurrent git removes does not count.
func holdingsOf(objects string) (holdings, error) {
	var out holdings
	err := filepath.WalkDir(objects, func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		out.bytes += info.Size()
		switch {
		case strings.HasSuffix(e.Name(), ".pack"):
			out.packs++
		case len(e.Name()) >= 38 && !strings.Contains(e.Name(), "."): // the rest of an id whose first byte is the folder
			out.loose++
		}
		return nil
	})
	return out, err
}

// tidy repacks the gate without what the seed has. What no ref holds goes with
// it, so no import may be under way.
func (g *gate) tidy(ctx context.Context) error {
	objects := filepath.Join(g.dir, "objects")
	have, err := holdingsOf(objects)
	if err != nil {
		return err
	}
	g.access.size.Store(have.bytes)
	if have.packs <= g.h.pieces.GatePacks && have.loose <= g.h.pieces.GateLoose {
		return nil
	}
	g.access.Lock()
	defer g.access.Unlock()
	unlock, err := g.h.lock(ctx, g.repo.Key, false)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(g.dir); errors.Is(err, os.ErrNotExist) {
		return nil // the box was destroyed
	}
	if err := g.h.aside(ctx, g.dir, "repack", "-a", "-d", "-l", "-q"); err != nil {
		return err
	}
	have, err = holdingsOf(objects)
	g.access.size.Store(have.bytes)
	return err
}

// tidySeed rolls the packs of a seed together. Boxes read from them meanwhile:
// git looks for a pack that is gone in what is there now.
func (h *Host) tidySeed(ctx context.Context, key string) error {
	dir := h.home.Seed(key)
	packs, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
	if err != nil || len(packs) <= h.pieces.SeedPacks {
		return err
	}
	unlock, err := h.lock(ctx, key, true)
	if err != nil {
		return err
	}
	defer unlock()
	err = h.aside(ctx, dir, "repack", "-d", "--geometric=2", "-q")
	if exitCode(err) == usageExit { // git before 2.32
		err = h.aside(ctx, dir, "repack", "-a", "-d", "-k", "-q")
	}
	if err == nil {
		err = h.aside(ctx, dir, "commit-graph", "write", "--reachable", "--no-progress")
	}
	return errors.Join(err, share(dir))
}

// usageExit is what git ends with when it does not know an option.
const usageExit = 129

// aside runs git in a store of ours after all that people wait for, and lets
// everyone read what it writes: the folder above keeps others out.
func (h *Host) aside(ctx context.Context, dir string, args ...string) error {
	cmd := h.ours(dir, args...)
	cmd.config = append(cmd.config, "repack.writeBitmaps=false", "pack.threads=1")
	cmd.deadline, cmd.aside = transfer, true
	_, err := h.run.run(ctx, cmd)
	return err
}

// maxGate bounds the objects of one gate on disk, in bytes: what a box may land
// in its life is counted in packs, which may hold much more than they weigh.
const maxGate = 8 << 30

// full refuses an import into a gate that has grown over its bound.
func (g *gate) full() error {
	if size := g.access.size.Load(); size > maxGate {
		return rejected("what the host keeps of this box takes %d MB of disk, more than the %d that it may; ask the user for a new box", size>>20, int64(maxGate)>>20)
	}
	return nil
}

// Sweep removes what processes that were killed have left in the stores of all
// projects. Gates are swept when they are first opened.
func (h *Host) Sweep(ctx context.Context) error {
	seeds, err := filepath.Glob(h.home.Seed("*"))
	if err != nil {
		return err
	}
	var all error
	for _, dir := range seeds {
		key := strings.TrimSuffix(filepath.Base(dir), ".git")
		if err := h.sweepKey(ctx, key, dir); err != nil {
			all = errors.Join(all, fmt.Errorf("clean the seed store %s: %w", key, err))
		}
	}
	return all
}

func (h *Host) sweepKey(ctx context.Context, key, dir string) error {
	unlock, err := h.lock(ctx, key, true)
	if err != nil {
		return err
	}
	defer unlock()
	return errors.Join(removeAll(h.home.Gate("*", key)+".new-*"), sweepSeed(dir))
}

// sweepSeed removes what a write that did not end has left in a seed, whose
// lock the caller holds alone.
func sweepSeed(dir string) error {
	err := removeAll(
		dir+".new-*",
		filepath.Join(dir, "objects", "pack", "tmp_*"), filepath.Join(dir, "objects", "pack", ".tmp-*"),
		filepath.Join(dir, "objects", "??", "tmp_obj_*"), filepath.Join(dir, "objects", "tmp_objdir-*"),
	)
	return errors.Join(err, removeLocks(dir))
}

// removeLocks removes what keeps the refs of a repository of ours locked after
// the git that held them was killed.
func removeLocks(dir string) error {
	if err := removeAll(filepath.Join(dir, "*.lock")); err != nil {
		return err
	}
	return filepath.WalkDir(filepath.Join(dir, "refs"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".lock") {
			return err
		}
		return os.Remove(path)
	})
}

// removeAll removes what matches the patterns.
func removeAll(patterns ...string) error {
	for _, pattern := range patterns {
		left, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, path := range left {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}
