package memory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

func (s *Store) head() store.Head {
	if len(s.audit) == 0 {
		return store.Head{}
	}
	last := s.audit[len(s.audit)-1]
	return store.Head{Seq: last.Seq, Hash: last.Hash}
}

// seal appends to the audit chain.
func (s *Store) seal(e store.Entry, now time.Time) (wire.AuditEntry, error) {
	link, err := store.Seal(s.head(), e, now)
	if err != nil {
		return link, err
	}
	s.audit = append(s.audit, link)
	s.auditBytes[link.BoxID] += store.EntryBytes(link)
	link.Detail = slices.Clone(link.Detail)
	return link, nil
}

// AppendAudit implements store.AuditStore.
func (s *Store) AppendAudit(ctx context.Context, e store.Entry) (link wire.AuditEntry, err error) {
	err = s.write(ctx, func(now time.Time) (err error) {
		link, err = s.seal(e, now)
		return err
	})
	return link, err
}

// Audit implements store.AuditStore.
func (s *Store) Audit(ctx context.Context, since int64, limit int) (page []wire.AuditEntry, err error) {
	err = s.read(ctx, func(time.Time) error {
		// Numbers count from 1 without a gap, so they are places in the slice.
		rest := s.audit[min(max(0, since), int64(len(s.audit))):]
		for _, e := range rest[:min(limit, len(rest))] {
			e.Detail = slices.Clone(e.Detail)
			page = append(page, e)
		}
		return nil
	})
	return page, err
}

// AuditHead implements store.AuditStore.
func (s *Store) AuditHead(ctx context.Context) (h store.Head, err error) {
	err = s.read(ctx, func(time.Time) error {
		h = s.head()
		return nil
	})
	return h, err
}

// AuditBytes implements store.AuditStore.
func (s *Store) AuditBytes(ctx context.Context, boxID string) (n int64, err error) {
	err = s.read(ctx, func(time.Time) error {
		n = s.auditBytes[boxID]
		return nil
	})
	return n, err
}

// AppendEvent implements store.EventStore.
func (s *Store) AppendEvent(ctx context.Context, boxID string, e wire.PostEvent) (ev wire.Event, err error) {
	payload, err := store.CheckEvent(e)
	if err == nil {
		err = s.write(ctx, func(now time.Time) error {
			if _, ok := s.boxes[boxID]; !ok {
				return store.ErrNotFound
			}
			s.numbers[boxID]++
			s.fed++
			e.Payload = payload
			ev = store.NewEvent(boxID, s.numbers[boxID], e, now)
			s.rings[boxID] = trimmed(append(s.rings[boxID], fed{s.fed, cloneEvent(ev)}))
			s.topics.Wake(store.EventsTopic(boxID), store.FeedTopic)
			return nil
		})
	}
	if err != nil {
		return wire.Event{}, fmt.Errorf("keep an event of box %q: %w", boxID, err)
	}
	return ev, nil
}

// trimmed is the ring without what is over its bounds.
func trimmed(ring []fed) []fed {
	bytes, from := 0, len(ring)
	for ; from > max(0, len(ring)-store.RingSize); from-- {
		e := ring[from-1].event
		if bytes += len(e.Type) + len(e.TS) + len(e.Payload); bytes > store.RingBytes {
			break
		}
	}
	return ring[from:]
}

func cloneEvent(e wire.Event) wire.Event {
	e.Payload = slices.Clone(e.Payload)
	return e
}

// Events implements store.EventStore.
func (s *Store) Events(ctx context.Context, boxID string, since int64, limit int) (out []wire.Event, err error) {
	err = s.read(ctx, func(time.Time) error {
		for _, f := range s.rings[boxID] {
			if f.event.Seq > since && len(out) < limit {
				out = append(out, cloneEvent(f.event))
			}
		}
		return nil
	})
	return out, err
}

// Feed implements store.EventStore. The cursor is the feed number in decimal.
func (s *Store) Feed(ctx context.Context, after store.Cursor, limit int) (out []wire.Event, next store.Cursor, err error) {
	next = after
	err = s.read(ctx, func(time.Time) error {
		last, err := s.parseCursor(after)
		if err != nil {
			return fmt.Errorf("read the feed after %q: %w", after, err)
		}
		var found []fed
		for _, ring := range s.rings {
			for _, f := range ring {
				if f.feed > last {
					found = append(found, f)
				}
			}
		}
		slices.SortFunc(found, func(a, b fed) int { return int(a.feed - b.feed) })
		for _, f := range found[:min(limit, len(found))] {
			out, last = append(out, cloneEvent(f.event)), f.feed
		}
		next = cursorAt(last)
		return nil
	})
	return out, next, err
}

// FeedEnd implements store.EventStore.
func (s *Store) FeedEnd(ctx context.Context) (end store.Cursor, err error) {
	err = s.read(ctx, func(time.Time) error {
		end = cursorAt(s.fed)
		return nil
	})
	return end, err
}

func cursorAt(feed int64) store.Cursor { return store.Cursor(strconv.FormatInt(feed, 10)) }

func (s *Store) parseCursor(c store.Cursor) (int64, error) {
	if c == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(c), 10, 64)
	if err != nil || n < 0 || n > s.fed {
		return 0, store.ErrNotFound
	}
	return n, nil
}
