// Package memory keeps the relay's store in this process: for the relay inside
// a box, whose memory is the box's, and for tests.
//
// It obeys the same rules as the drivers with a disk, and loses everything at
// Close. Invariant: nothing that a caller passed in or got back is shared with
// what is kept; rows go in and out as JSON, as they do in a database.
package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/wake"
)

// Options adjust a store; the zero value is the usual one.
type Options struct {
	// Now is the clock, time.Now by default.
	Now func() time.Time
}

// Store is a store.Store in memory. New makes one.
type Store struct {
	clock  func() time.Time
	topics wake.Topics

	mu         sync.RWMutex
	closed     bool
	boxes      map[string]store.Registration
	statuses   map[string]store.Status
	approvals  []store.Approval // oldest first
	intents    []store.Intent   // oldest first
	results    map[resultKey]result
	audit      []wire.AuditEntry
	auditBytes map[string]int64
	rings      map[string][]fed // by box
	numbers    map[string]int64 // last event number by box
	fed        int64            // last number in the feed
}

type resultKey struct{ box, request string }

type result struct {
	digest string
	at     time.Time
	env    wire.Envelope
	bytes  int
}

// fed is an event with its number in the feed of all boxes.
type fed struct {
	feed  int64
	event wire.Event
}

var _ store.Store = (*Store)(nil)

// New makes an empty store.
func New(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Store{
		clock:      o.Now,
		boxes:      map[string]store.Registration{},
		statuses:   map[string]store.Status{},
		results:    map[resultKey]result{},
		auditBytes: map[string]int64{},
		rings:      map[string][]fed{},
		numbers:    map[string]int64{},
	}
}

func (s *Store) now() time.Time { return s.clock().Truncate(time.Millisecond).UTC() }

// write runs do alone. Unlike a database it can't take back what a failing do
// has changed, so every do decides first and changes last.
func (s *Store) write(ctx context.Context, do func(now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	return do(s.now())
}

// read runs look beside other reads.
func (s *Store) read(ctx context.Context, look func(now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	return look(s.now())
}

// clone copies through JSON, as a database would.
func clone[T any](v T) (T, error) {
	var c T
	raw, err := json.Marshal(v)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(raw, &c)
}

func cloneAll[T any](vs []T) ([]T, error) {
	var out []T
	for _, v := range vs {
		c, err := clone(v)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Watch implements store.Store.
func (s *Store) Watch(topic store.Topic) (<-chan struct{}, func()) { return s.topics.Watch(topic) }

// Close implements store.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// Prune implements store.Store.
func (s *Store) Prune(ctx context.Context) error {
	return s.write(ctx, func(now time.Time) error {
		for key, r := range s.results {
			if !r.fresh(now) {
				delete(s.results, key)
			}
		}
		s.approvals = slices.DeleteFunc(s.approvals, func(a store.Approval) bool {
			return !store.Live(a.State) && now.Sub(a.UpdatedAt) >= store.SettledTTL
		})
		return nil
	})
}

// RegisterBox implements store.BoxStore.
func (s *Store) RegisterBox(ctx context.Context, box core.Box, token store.TokenHash) (store.Registration, error) {
	var r store.Registration
	err := s.write(ctx, func(now time.Time) error {
		for id, other := range s.boxes {
			if other.Token == token && id != box.ID {
				return fmt.Errorf("its token is that of box %s: %w", id, store.ErrExists)
			}
		}
		kept, err := clone(box)
		if err != nil {
			return err
		}
		s.boxes[box.ID] = store.Registration{Box: kept, Token: token, RegisteredAt: now}
		r, err = clone(s.boxes[box.ID])
		return err
	})
	if err != nil {
		return store.Registration{}, fmt.Errorf("register box %s: %w", box.ID, err)
	}
	return r, nil
}

// Box implements store.BoxStore.
func (s *Store) Box(ctx context.Context, id string) (r store.Registration, err error) {
	err = s.read(ctx, func(time.Time) (err error) {
		kept, ok := s.boxes[id]
		if !ok {
			return fmt.Errorf("look up box %q: %w", id, store.ErrNotFound)
		}
		r, err = clone(kept)
		return err
	})
	return r, err
}

// BoxByToken implements store.BoxStore.
func (s *Store) BoxByToken(ctx context.Context, token store.TokenHash) (r store.Registration, err error) {
	err = s.read(ctx, func(time.Time) (err error) {
		for _, kept := range s.boxes {
			if kept.Token == token {
				r, err = clone(kept)
				return err
			}
		}
		return fmt.Errorf("look up a box by its token: %w", store.ErrNotFound)
	})
	return r, err
}

// Boxes implements store.BoxStore.
func (s *Store) Boxes(ctx context.Context) (all []store.Registration, err error) {
	err = s.read(ctx, func(time.Time) (err error) {
		for _, r := range s.boxes {
			all = append(all, r)
		}
		slices.SortFunc(all, func(a, b store.Registration) int {
			if c := a.RegisteredAt.Compare(b.RegisteredAt); c != 0 {
				return c
			}
			return strings.Compare(a.Box.ID, b.Box.ID)
		})
		all, err = cloneAll(all)
		return err
	})
	return all, err
}

// ForgetBox implements store.BoxStore.
func (s *Store) ForgetBox(ctx context.Context, id string) (existed bool, err error) {
	err = s.write(ctx, func(now time.Time) error {
		for i, a := range s.approvals {
			if a.BoxID != id || a.State != wire.Pending && a.State != wire.Approved {
				continue
			}
			if a.At(now).State != wire.Expired {
				if a, err = a.Cancel("relay", "the box was removed", now); err != nil {
					return err
				}
			}
			if err := s.settle(i, a.At(now), now); err != nil {
				return err
			}
		}
		for key := range s.results {
			if key.box == id {
				delete(s.results, key)
			}
		}
		delete(s.statuses, id)
		delete(s.rings, id)
		_, existed = s.boxes[id]
		delete(s.boxes, id)
		s.topics.Wake(store.StatusTopic(id))
		return nil
	})
	return existed, err
}

// SetStatus implements store.BoxStore.
func (s *Store) SetStatus(ctx context.Context, boxID string, snapshot json.RawMessage) error {
	err := store.CheckStatus(snapshot)
	if err == nil {
		err = s.write(ctx, func(now time.Time) error {
			if _, ok := s.boxes[boxID]; !ok {
				return store.ErrNotFound
			}
			s.statuses[boxID] = store.Status{BoxID: boxID, Snapshot: slices.Clone(snapshot), UpdatedAt: now}
			s.topics.Wake(store.StatusTopic(boxID))
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("keep the status of box %q: %w", boxID, err)
	}
	return nil
}

// Status implements store.BoxStore.
func (s *Store) Status(ctx context.Context, boxID string) (st store.Status, err error) {
	err = s.read(ctx, func(time.Time) error {
		kept, ok := s.statuses[boxID]
		if !ok {
			return fmt.Errorf("read the status of box %q: %w", boxID, store.ErrNotFound)
		}
		st = kept
		st.Snapshot = slices.Clone(kept.Snapshot)
		return nil
	})
	return st, err
}

// Statuses implements store.BoxStore.
func (s *Store) Statuses(ctx context.Context) (all []store.Status, err error) {
	err = s.read(ctx, func(time.Time) error {
		for _, st := range s.statuses {
			st.Snapshot = slices.Clone(st.Snapshot)
			all = append(all, st)
		}
		slices.SortFunc(all, func(a, b store.Status) int { return strings.Compare(a.BoxID, b.BoxID) })
		return nil
	})
	return all, err
}
