package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/ring"
)

// counted is a box with the last number that the database gave its events.
type counted struct {
	id   string
	last int64
}

func scanCounted(rows *sql.Rows) (counted, error) {
	var c counted
	err := rows.Scan(&c.id, &c.last)
	return c, err
}

// openEvents opens the ring beside the database, for the boxes that are
// registered.
func (s *Store) openEvents(ctx context.Context) error {
	feed, err := one(ctx, s.reader, scalar[int64], `SELECT coalesce(sum(events), 0) FROM counters WHERE box_id = ''`)
	if err != nil {
		return err
	}
	boxes, err := list(ctx, s.reader, scanCounted, `SELECT id, events FROM boxes JOIN counters ON box_id = id`)
	if err != nil {
		return err
	}
	if s.events, err = ring.Open(s.eventsDir(), feed); err != nil {
		return err
	}
	for _, b := range boxes {
		if err := s.events.Admit(b.id, b.last); err != nil {
			return err
		}
	}
	return s.events.ResetOthers()
}

// AppendEvent implements store.EventStore.
func (s *Store) AppendEvent(ctx context.Context, boxID string, e wire.PostEvent) (ev wire.Event, err error) {
	e.Payload, err = store.CheckEvent(e)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		ev, err = s.events.Append(boxID, e, s.clock())
	}
	if err != nil {
		return wire.Event{}, fmt.Errorf("keep an event of box %q: %w", boxID, err)
	}
	s.topics.Wake(store.EventsTopic(boxID), store.FeedTopic)
	return ev, nil
}

// Events implements store.EventStore.
func (s *Store) Events(ctx context.Context, boxID string, since int64, limit int) ([]wire.Event, error) {
	events, err := s.events.Events(boxID, since, limit)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("read the events of box %q: %w", boxID, err)
	}
	return events, nil
}

// Feed implements store.EventStore. The cursor is the place in decimal.
func (s *Store) Feed(ctx context.Context, after store.Cursor, limit int) (events []wire.Event, next store.Cursor, err error) {
	place := int64(0)
	if after != "" {
		if place, err = strconv.ParseInt(string(after), 10, 64); err != nil {
			return nil, after, fmt.Errorf("read the feed after %q: %w", after, store.ErrNotFound)
		}
	}
	events, place, err = s.events.Feed(place, limit)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, after, fmt.Errorf("read the feed after %q: %w", after, err)
	}
	return events, cursorAt(place), nil
}

// FeedEnd implements store.EventStore.
func (s *Store) FeedEnd(ctx context.Context) (store.Cursor, error) {
	return cursorAt(s.events.End()), ctx.Err()
}

func cursorAt(place int64) store.Cursor { return store.Cursor(strconv.FormatInt(place, 10)) }
