// Package proc tells processes apart across a restart of the relay (a pid is
// used again, a pid with its start time is not), and bounds what one may take.
//
// Invariant: End signals nothing but the very process that Started described.
package proc

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrUnsupported: this platform tells no start times, so that a child of an
// earlier relay can't be known again.
var ErrUnsupported = errors.New("processes can't be told apart on this platform")

// grace is how long a process has between SIGTERM and SIGKILL.
const grace = 5 * time.Second

// Bounds are what a process may take.
type Bounds struct {
	// Memory is its address space, in bytes; CPU its processor time, in seconds.
	Memory, CPU uint64
}

// Bound bounds a process of ours and what it starts from now on. Platforms that
// can't bound another process bound nothing.
func Bound(pid int, b Bounds) error {
	if err := bound(pid, b); err != nil {
		return fmt.Errorf("bound process %d: %w", pid, err)
	}
	return nil
}

// Started is the start time of a running process as the kernel tells it; only
// equality counts.
func Started(pid int) (string, error) {
	s, err := started(pid)
	if err != nil {
		return "", fmt.Errorf("find out when process %d started: %w", pid, err)
	}
	return s, nil
}

// End ends the process group that pid leads, if pid is still the process that
// started then, and waits until pid is gone. A process that is gone already is
// no error.
func End(ctx context.Context, pid int, startedThen string) error {
	if pid <= 1 || startedThen == "" {
		return nil
	}
	if err := end(ctx, pid, startedThen); err != nil {
		return fmt.Errorf("end process %d of an earlier relay: %w", pid, err)
	}
	return nil
}
