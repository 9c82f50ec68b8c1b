package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// AppendEvent implements store.EventStore.
func (s *Store) AppendEvent(ctx context.Context, boxID string, e wire.PostEvent) (wire.Event, error) {
	payload, err := store.CheckEvent(e)
	if err != nil {
		return wire.Event{}, fmt.Errorf("keep an event of box %q: %w", boxID, err)
	}
	ev := wire.Event{BoxID: boxID, Type: e.Type, TS: e.TS, Payload: payload}
	err = s.write(ctx, func(t *tx) error { return t.appendEvent(&ev) })
	if err != nil {
		return wire.Event{}, fmt.Errorf("keep an event of box %q: %w", boxID, err)
	}
	return ev, nil
}

// appendEvent numbers the event, writes it and lets the oldest one go.
func (t *tx) appendEvent(ev *wire.Event) error {
	last, err := find(t, scalar[int64], `SELECT events FROM counters JOIN boxes ON id = box_id WHERE box_id = ?`, ev.BoxID)
	if err != nil {
		return err
	}
	ev.Seq, ev.ReceivedAt = last+1, t.now
	if _, err := t.exec(`UPDATE counters SET events = ? WHERE box_id = ?`, ev.Seq, ev.BoxID); err != nil {
		return err
	}
	var payload any // NULL where there is none
	if ev.Payload != nil {
		payload = string(ev.Payload)
	}
	if _, err := t.exec(`INSERT INTO events (box_id, seq, type, received_at, ts, payload) VALUES (?, ?, ?, ?, ?, ?)`,
		ev.BoxID, ev.Seq, ev.Type, ev.ReceivedAt.UnixMilli(), ev.TS, payload); err != nil {
		return err
	}
	if _, err := t.exec(`DELETE FROM events WHERE box_id = ? AND seq <= ?`, ev.BoxID, ev.Seq-store.RingSize); err != nil {
		return err
	}
	t.wake(store.EventsTopic(ev.BoxID), store.FeedTopic)
	return nil
}

// place is an event with its number in the feed of all boxes.
type place struct {
	feed  int64
	event wire.Event
}

const placeColumns = `SELECT feed, box_id, seq, type, received_at, ts, payload FROM events `

func scanPlace(rows *sql.Rows) (place, error) {
	var p place
	var at int64
	err := rows.Scan(&p.feed, &p.event.BoxID, &p.event.Seq, &p.event.Type, &at, &p.event.TS, (*[]byte)(&p.event.Payload))
	p.event.ReceivedAt = millis(at)
	return p, err
}

func eventsOf(places []place) []wire.Event {
	out := make([]wire.Event, len(places))
	for i, p := range places {
		out[i] = p.event
	}
	return out
}

// Events implements store.EventStore.
func (s *Store) Events(ctx context.Context, boxID string, since int64, limit int) ([]wire.Event, error) {
	found, err := list(ctx, s.reader, scanPlace, placeColumns+`WHERE box_id = ? AND seq > ? ORDER BY seq LIMIT ?`, boxID, since, limit)
	if err != nil {
		return nil, fmt.Errorf("read the events of box %q: %w", boxID, err)
	}
	return eventsOf(found), nil
}

// Feed implements store.EventStore. The cursor is the feed number in decimal.
func (s *Store) Feed(ctx context.Context, after store.Cursor, limit int) ([]wire.Event, store.Cursor, error) {
	last, err := s.parseCursor(ctx, after)
	if err != nil {
		return nil, after, fmt.Errorf("read the feed after %q: %w", after, err)
	}
	found, err := list(ctx, s.reader, scanPlace, placeColumns+`WHERE feed > ? ORDER BY feed LIMIT ?`, last, limit)
	if err != nil {
		return nil, after, fmt.Errorf("read the feed after %q: %w", after, err)
	}
	if len(found) > 0 {
		last = found[len(found)-1].feed
	}
	return eventsOf(found), cursorAt(last), nil
}

// FeedEnd implements store.EventStore.
func (s *Store) FeedEnd(ctx context.Context) (store.Cursor, error) {
	end, err := s.feedEnd(ctx)
	if err != nil {
		return "", fmt.Errorf("find the end of the feed: %w", err)
	}
	return cursorAt(end), nil
}

// feedEnd is the highest number ever given, even when its event has gone.
func (s *Store) feedEnd(ctx context.Context) (int64, error) {
	return one(ctx, s.reader, scalar[int64], `SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'`)
}

func cursorAt(feed int64) store.Cursor { return store.Cursor(strconv.FormatInt(feed, 10)) }

// parseCursor refuses a cursor beyond the end: it is from another database, and
// its reader would wait for ever.
func (s *Store) parseCursor(ctx context.Context, c store.Cursor) (int64, error) {
	if c == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(c), 10, 64)
	if err != nil || n < 0 {
		return 0, store.ErrNotFound
	}
	end, err := s.feedEnd(ctx)
	if err == nil && n > end {
		err = store.ErrNotFound
	}
	return n, err
}
