package gitgate

import (
	"context"
	"errors"
	"testing"

	"github.com/gofrs/flock"

	"github.com/madarco/agentbox/core"
)

// TestWhoWantsToBeAloneComesNext: those who come later and would share wait
// behind, though the lock is only shared yet.
func TestWhoWantsToBeAloneComesNext(t *testing.T) {
	t.Parallel()
	home := core.Home(t.TempDir())
	h, err := New(home, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const key = "0123456789abcdef"
	first, err := h.lock(t.Context(), key, false)
	if err != nil {
		t.Fatal(err)
	}
	order := make(chan string, 2)
	alone := make(chan func(), 1)
	go func() {
		unlock, err := h.lock(t.Context(), key, true)
		if err != nil {
			t.Error(err)
		}
		order <- "alone"
		alone <- unlock
	}()
	waitHeld(t, home.SeedTurnstile(key))
	shared := make(chan func(), 1)
	go func() {
		unlock, err := h.lock(t.Context(), key, false)
		if err != nil {
			t.Error(err)
		}
		order <- "shared"
		shared <- unlock
	}()
	// While the one waits, nobody who would share comes in.
	ctx, cancel := context.WithTimeout(t.Context(), 20*lockPoll)
	defer cancel()
	if _, err := h.lock(ctx, key, false); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a third came in: %v", err)
	}
	first()
	if who := <-order; who != "alone" {
		t.Errorf("%s came first", who)
	}
	(<-alone)()
	(<-shared)()
}

// waitHeld returns once somebody holds the lock.
func waitHeld(t *testing.T, path string) {
	t.Helper()
	for t.Context().Err() == nil {
		l := flock.New(path)
		taken, err := l.TryLock()
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		if !taken {
			return
		}
	}
}
