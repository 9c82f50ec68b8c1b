package gitgate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/madarco/agentbox/core"
)

// ErrInUse: boxes read from the seed store.
var ErrInUse = errors.New("boxes of the project still read from it; destroy them first")

// Purged tells what a purge has freed.
type Purged struct{ Before, After int64 }

// PurgeSeed drops from a seed store what is only kept because a box may have
// built on it, such as branches that were rewritten or removed. It is ErrInUse
// while a box of the project lives, and nothing where there is no such store.
func (h *Host) PurgeSeed(ctx context.Context, key string) (Purged, error) {
	var out Purged
	if !core.ValidRepoKey(key) {
		return out, fmt.Errorf("purge the seed store: %w: repository key", core.ErrInvalid)
	}
	dir := h.home.Seed(key)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return out, nil
	}
	unlock, err := h.lock(ctx, key, true)
	if err != nil {
		return out, err
	}
	defer unlock()
	gates, err := filepath.Glob(h.home.Gate("*", key))
	if err == nil && len(gates) > 0 {
		err = ErrInUse
	}
	if err == nil {
		out, err = h.purge(ctx, dir)
	}
	if err != nil {
		return out, fmt.Errorf("purge the seed store: %w", err)
	}
	return out, nil
}

func (h *Host) purge(ctx context.Context, dir string) (out Purged, err error) {
	objects := filepath.Join(dir, "objects")
	before, err := holdingsOf(objects)
	if err != nil {
		return out, err
	}
	kept, err := h.listRefs(ctx, h.ours(dir), "refs/seed/keep")
	if err != nil {
		return out, err
	}
	var changes []change
	for _, r := range kept {
		changes = append(changes, change{ref: r.name, old: r.oid})
	}
	if err := h.moveRefs(ctx, h.ours(dir), "sha1", changes); err != nil { // no null id is written
		return out, err
	}
	if err := h.aside(ctx, dir, "repack", "-a", "-d", "-q"); err != nil {
		return out, err
	}
	if err := h.aside(ctx, dir, "prune", "--expire=now"); err != nil {
		return out, err
	}
	if err := h.aside(ctx, dir, "commit-graph", "write", "--reachable", "--no-progress"); err != nil {
		return out, err
	}
	after, err := holdingsOf(objects)
	return Purged{before.bytes, after.bytes}, errors.Join(err, share(dir))
}
