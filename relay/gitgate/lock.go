package gitgate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is how often a taken lock is tried again.
const lockPoll = 5 * time.Millisecond

// lock takes the lock of a repository key: shared by those who add objects to
// a seed or gate, alone by those who move a seed's refs or remove anything.
//
// Whoever comes passes a turnstile first, and who wants to be alone waits in it.
// Without it the landings of many boxes, of which there is always one, would
// keep a fetch waiting for ever.
func (h *Host) lock(ctx context.Context, key string, alone bool) (unlock func(), err error) {
	path := h.home.SeedLock(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("lock the repository's store: %w", err)
	}
	turnstile, err := flocked(ctx, h.home.SeedTurnstile(key), true)
	if err != nil {
		return nil, err
	}
	defer turnstile()
	return flocked(ctx, path, alone)
}

func flocked(ctx context.Context, path string, alone bool) (unlock func(), err error) {
	l := flock.New(path, flock.SetPermissions(0o600))
	if alone {
		_, err = l.TryLockContext(ctx, lockPoll)
	} else {
		_, err = l.TryRLockContext(ctx, lockPoll)
	}
	if err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("lock the repository's store %s: %w", path, err)
	}
	return func() { _ = l.Close() }, nil
}
