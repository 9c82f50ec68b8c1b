// Package budget bounds what a box may cost the host by handing in commits: in
// its whole life, by the second, and of the disk that it shares with the user.
//
// Invariants:
//   - What is spent only grows, also over restarts of the relay. A crash forgets
//     at most a thousandth of the budget.
//   - Only a person raises a budget, by a whole one at a time.
//   - While less than the reserve is free nothing of a box is taken in, so that
//     the user's own commands always have room for what they write.
package budget

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/madarco/agentbox/core/atomicfile"
)

// Limits are what a box may cost.
type Limits struct {
	// Bytes of packs and CPU time of git in a box's life, before the user is asked.
	Bytes int64
	CPU   time.Duration
	// Reserve are the bytes of disk that stay free for the user.
	Reserve int64
	// PerSecond is how many landings a box may have in a second, Burst how many
	// at once.
	PerSecond, Burst int
}

// Defaults suit the work of months.
var Defaults = Limits{Bytes: 2 << 30, CPU: time.Hour, Reserve: 1 << 30, PerSecond: 10, Burst: 30}

// Or fills in the values of l that are zero from other.
func (l Limits) Or(other Limits) Limits {
	if l.Bytes == 0 {
		l.Bytes = other.Bytes
	}
	if l.CPU == 0 {
		l.CPU = other.CPU
	}
	if l.Reserve == 0 {
		l.Reserve = other.Reserve
	}
	if l.PerSecond == 0 {
		l.PerSecond = other.PerSecond
	}
	if l.Burst == 0 {
		l.Burst = other.Burst
	}
	return l
}

// Account is what a box has spent in its life.
type Account struct {
	Bytes int64         `json:"bytes"`
	CPU   time.Duration `json:"cpuNanoseconds"`
	// Raised is how many further budgets the user has granted.
	Raised int `json:"raised,omitempty"`
}

// SpentError tells that a box has spent what it may.
type SpentError struct{ Account Account }

func (e *SpentError) Error() string {
	return fmt.Sprintf("the box has landed %s, with %s of processor time, which is its budget",
		Size(e.Account.Bytes), e.Account.CPU.Round(time.Second))
}

// Size is a number of bytes for people.
func Size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d kB", n>>10)
	}
	if n < 1<<30 {
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
}

// Ledger keeps the accounts of all boxes. It is safe for concurrent use.
type Ledger struct {
	limits Limits
	path   func(boxID string) string

	mu   sync.Mutex
	open map[string]*entry
}

type entry struct {
	Account
	written Account
}

// NewLedger keeps each box's account in the file that path names, below a folder
// that goes with the box.
func NewLedger(limits Limits, path func(boxID string) string) *Ledger {
	return &Ledger{limits: limits, path: path, open: map[string]*entry{}}
}

// Afford tells whether the box may hand in more. What it then hands in may exceed
// the budget, by no more than the packs that it sends at the same time. The error is a *SpentError, or one of the
// file system.
func (l *Ledger) Afford(boxID string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, err := l.entry(boxID)
	if err != nil {
		return err
	}
	times := int64(1 + e.Raised)
	if e.Bytes >= times*l.limits.Bytes || e.CPU >= time.Duration(times)*l.limits.CPU {
		return &SpentError{e.Account}
	}
	return nil
}

// Add books what a hand-in has cost.
func (l *Ledger) Add(boxID string, bytes int64, cpu time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, err := l.entry(boxID)
	if err != nil {
		return err
	}
	e.Bytes += bytes
	e.CPU += cpu
	if e.Bytes-e.written.Bytes < l.limits.Bytes/1000 && e.CPU-e.written.CPU < l.limits.CPU/1000 {
		return nil
	}
	return l.write(boxID, e)
}

// Raise lets the box have n budgets beyond the first. Doing it twice is the same
// as once.
func (l *Ledger) Raise(boxID string, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, err := l.entry(boxID)
	if err != nil {
		return err
	}
	e.Raised = max(e.Raised, n)
	return l.write(boxID, e)
}

// Forget closes the account of a box that is served no longer.
func (l *Ledger) Forget(boxID string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.open[boxID]
	delete(l.open, boxID)
	if e == nil || e.Account == e.written {
		return nil
	}
	return l.write(boxID, e)
}

// Close writes down what is not written yet.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all error
	for boxID, e := range l.open {
		if e.Account != e.written {
			all = errors.Join(all, l.write(boxID, e))
		}
	}
	return all
}

func (l *Ledger) entry(boxID string) (*entry, error) {
	if e := l.open[boxID]; e != nil {
		return e, nil
	}
	e := &entry{}
	text, err := os.ReadFile(l.path(boxID))
	if err == nil {
		err = json.Unmarshal(text, &e.Account)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read what box %s has landed: %w", boxID, err)
	}
	e.written = e.Account
	l.open[boxID] = e
	return e, nil
}

func (l *Ledger) write(boxID string, e *entry) error {
	text, err := json.Marshal(e.Account)
	if err != nil {
		return err
	}
	err = atomicfile.Write(l.path(boxID), append(text, '\n'), 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the box was destroyed meanwhile
	}
	if err != nil {
		return fmt.Errorf("write down what box %s has landed: %w", boxID, err)
	}
	e.written = e.Account
	return nil
}
