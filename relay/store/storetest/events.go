package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

func (b *bench) event(boxID string, n int) wire.Event {
	b.Helper()
	e, err := b.store.AppendEvent(b.ctx, boxID, wire.PostEvent{Type: "notify", TS: "then", Payload: payload(n)})
	b.noErr(err)
	return e
}

func (b *bench) wantEvents(got []wire.Event, want ...wire.Event) {
	b.Helper()
	if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		b.Errorf("got events %+v; want %+v", got, want)
	}
}

var eventTests = map[string]func(*bench){
	"events are numbered per box": func(b *bench) {
		b.register("b1")
		b.register("b2")
		one, other, two := b.event("b1", 1), b.event("b2", 1), b.event("b1", 2)
		if one.Seq != 1 || two.Seq != 2 || other.Seq != 1 || !one.ReceivedAt.Equal(b.clock.Now()) || one.BoxID != "b1" {
			b.Errorf("got %+v, %+v, %+v", one, two, other)
		}
		for _, test := range []struct {
			since int64
			limit int
			want  []wire.Event
		}{{0, 10, []wire.Event{one, two}}, {1, 10, []wire.Event{two}}, {0, 1, []wire.Event{one}}, {2, 10, nil}} {
			got, err := b.store.Events(b.ctx, "b1", test.since, test.limit)
			b.noErr(err)
			b.wantEvents(got, test.want...)
		}
	},
	"an event belongs to a registered box and is bounded": func(b *bench) {
		_, err := b.store.AppendEvent(b.ctx, "b1", wire.PostEvent{Type: "t"})
		b.wantErr(err, store.ErrNotFound)
		b.register("b1")
		_, err = b.store.AppendEvent(b.ctx, "b1", wire.PostEvent{Type: "t", Payload: bigJSON(store.MaxEventBytes)})
		b.wantErr(err, store.ErrTooLarge)
		if _, err = b.store.AppendEvent(b.ctx, "b1", wire.PostEvent{Type: "t", Payload: json.RawMessage(`{`)}); err == nil {
			b.Error("a payload that is no JSON was taken")
		}
		bare, err := b.store.AppendEvent(b.ctx, "b1", wire.PostEvent{Type: "t"})
		b.noErr(err)
		got, err := b.store.Events(b.ctx, "b1", 0, 10)
		b.noErr(err)
		b.wantEvents(got, bare)
	},
	"the ring keeps the newest": func(b *bench) {
		b.register("b1")
		b.register("b2")
		kept := b.event("b2", 0)
		inParallel(4, func(int) {
			for i := range store.RingSize/4 + 5 {
				if _, err := b.store.AppendEvent(b.ctx, "b1", wire.PostEvent{Type: "t", Payload: payload(i)}); err != nil {
					b.Error(err)
				}
			}
		})
		got, err := b.store.Events(b.ctx, "b1", 0, 2*store.RingSize)
		b.noErr(err)
		if len(got) != store.RingSize || got[0].Seq != 21 {
			b.Errorf("%d events from %d on are kept", len(got), got[0].Seq)
		}
		got, err = b.store.Events(b.ctx, "b2", 0, 10)
		b.noErr(err)
		b.wantEvents(got, kept) // one box does not push out another's
	},
	"the ring is bounded in bytes": func(b *bench) {
		b.register("b1")
		const size = store.MaxEventBytes - 100
		total := 2 * store.RingBytes / size
		for range total {
			b.noErr2(b.store.AppendEvent(b.ctx, "b1", wire.PostEvent{Type: "t", Payload: bigJSON(size)}))
		}
		got, err := b.store.Events(b.ctx, "b1", 0, 2*store.RingSize)
		b.noErr(err)
		if n := len(got); n*size > store.RingBytes || n*size < store.RingBytes/2 || got[n-1].Seq != int64(total) {
			b.Errorf("%d events of %d bytes are kept", n, size)
		}
	},
	"an event says who speaks": func(b *bench) {
		b.register("b1")
		for kind, want := range map[string]wire.EventSource{"notify": wire.FromBox, "relay.git.push": wire.FromRelay} {
			e, err := b.store.AppendEvent(b.ctx, "b1", wire.PostEvent{Type: kind})
			b.noErr(err)
			if e.Source != want {
				b.Errorf("%s is from %q; want %q", kind, e.Source, want)
			}
		}
	},
	"a login is never kept": func(b *bench) {
		b.register("b1")
		_, err := b.store.AppendEvent(b.ctx, "b1", wire.PostEvent{Type: wire.CredentialsEvent, Payload: payload(1)})
		b.wantErr(err, store.ErrSecret)
		got, err := b.store.Events(b.ctx, "b1", 0, 10)
		b.noErr(err)
		b.wantEvents(got)
		_, _, err = b.store.Feed(b.ctx, "", 10)
		b.noErr(err)
	},
	"a forgotten box's events are gone": func(b *bench) {
		b.register("b1")
		b.event("b1", 1)
		b.noErr2(b.store.ForgetBox(b.ctx, "b1"))
		got, err := b.store.Events(b.ctx, "b1", 0, 10)
		b.noErr(err)
		b.wantEvents(got)
		_, err = b.store.AppendEvent(b.ctx, "b1", wire.PostEvent{Type: "t"})
		b.wantErr(err, store.ErrNotFound)
	},
	"numbers go on when a box comes back": func(b *bench) {
		b.register("b1")
		b.event("b1", 1)
		b.noErr2(b.store.ForgetBox(b.ctx, "b1"))
		b.register("b1")
		if e := b.event("b1", 2); e.Seq != 2 {
			b.Errorf("got number %d; want 2", e.Seq)
		}
	},
	"the feed has the events of all boxes in order": func(b *bench) {
		b.register("b1")
		b.register("b2")
		start, err := b.store.FeedEnd(b.ctx)
		b.noErr(err)
		one, two := b.event("b1", 1), b.event("b2", 1)
		end, err := b.store.FeedEnd(b.ctx)
		b.noErr(err)
		three := b.event("b1", 2)
		for _, test := range []struct {
			after store.Cursor
			want  []wire.Event
		}{{"", []wire.Event{one, two, three}}, {start, []wire.Event{one, two, three}}, {end, []wire.Event{three}}} {
			got, _, err := b.store.Feed(b.ctx, test.after, 10)
			b.noErr(err)
			b.wantEvents(got, test.want...)
		}
		got, next, err := b.store.Feed(b.ctx, "", 2)
		b.noErr(err)
		b.wantEvents(got, one, two)
		got, next, err = b.store.Feed(b.ctx, next, 2)
		b.noErr(err)
		b.wantEvents(got, three)
		got, again, err := b.store.Feed(b.ctx, next, 2)
		b.noErr(err)
		b.wantEvents(got)
		if again != next {
			b.Errorf("an empty page moved the cursor from %q to %q", next, again)
		}
	},
	"a cursor from elsewhere is refused": func(b *bench) {
		for _, c := range []store.Cursor{"x", "-1", "1", "99999999999999999999", "1;", " 0"} {
			_, _, err := b.store.Feed(b.ctx, c, 10)
			b.wantErr(err, store.ErrNotFound)
		}
	},
	"a follower of one box misses nothing": func(b *bench) { b.follow([]string{"b1"}) },
	"a follower of all boxes misses nothing": func(b *bench) {
		b.follow([]string{"b1", "b2", "b3", "b4"})
	},
	"a wait for events ends with its context": func(b *bench) {
		ctx, cancel := context.WithCancel(b.ctx)
		left := make(chan error)
		go func() {
			_, err := waitEvents(ctx, b.store, "b1", 0, 10)
			left <- err
		}()
		go func() {
			_, _, err := waitFeed(ctx, b.store, "", 10)
			left <- err
		}()
		cancel()
		b.wantErr(<-left, context.Canceled)
		b.wantErr(<-left, context.Canceled)
	},
}

// follow reads while many write: with numbers that are given out before they
// are visible, a reader would skip some.
func (b *bench) follow(boxes []string) {
	const writers, each = 8, 50 // all that one box gets fits in its ring
	for _, id := range boxes {
		b.register(id)
	}
	followed := make(chan error, 2)
	go func() { followed <- followFeed(b.ctx, b.store, writers*each) }()
	go func() { followed <- followBox(b.ctx, b.store, boxes[0], writers*each/len(boxes)) }()
	inParallel(writers, func(w int) {
		for i := range each {
			if _, err := b.store.AppendEvent(b.ctx, boxes[w%len(boxes)], wire.PostEvent{Type: "t", Payload: payload(w*each + i)}); err != nil {
				b.Error(err)
			}
		}
	})
	for range 2 {
		b.noErr(<-followed)
	}
}

// waitEvents is Events, but waits until there is at least one.
func waitEvents(ctx context.Context, s store.Store, boxID string, since int64, limit int) (page []wire.Event, err error) {
	err = wait(ctx, s, store.EventsTopic(boxID), func() (found bool, err error) {
		page, err = s.Events(ctx, boxID, since, limit)
		return len(page) > 0, err
	})
	return page, err
}

// waitFeed is Feed, but waits until there is at least one event.
func waitFeed(ctx context.Context, s store.Store, after store.Cursor, limit int) (page []wire.Event, next store.Cursor, err error) {
	next = after
	err = wait(ctx, s, store.FeedTopic, func() (found bool, err error) {
		page, next, err = s.Feed(ctx, next, limit)
		return len(page) > 0, err
	})
	return page, next, err
}

// wait reads until there is something. It watches before it reads, as every
// follower must, or what comes in between is missed.
func wait(ctx context.Context, s store.Store, topic store.Topic, read func() (found bool, err error)) error {
	for {
		changed, stop := s.Watch(topic)
		found, err := read()
		if err == nil && !found {
			select {
			case <-changed:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		stop()
		if err != nil || found {
			return err
		}
	}
}

func followBox(ctx context.Context, s store.Store, boxID string, total int) error {
	var last int64
	for last < int64(total) {
		page, err := waitEvents(ctx, s, boxID, last, 7)
		if err != nil {
			return err
		}
		for _, e := range page {
			if e.Seq != last+1 {
				return fmt.Errorf("event %d of box %s came after %d", e.Seq, boxID, last)
			}
			last = e.Seq
		}
	}
	return nil
}

func followFeed(ctx context.Context, s store.Store, total int) error {
	var cursor store.Cursor
	seen := map[string]bool{}
	for len(seen) < total {
		page, next, err := waitFeed(ctx, s, cursor, 7)
		if err != nil {
			return err
		}
		for _, e := range page {
			if seen[string(e.Payload)] {
				return fmt.Errorf("event %s came twice", e.Payload)
			}
			seen[string(e.Payload)] = true
		}
		cursor = next
	}
	return nil
}

// exported is an audit log that was read elsewhere.
type exported struct {
	store.AuditStore
	entries []wire.AuditEntry
}

func (e exported) Audit(_ context.Context, since int64, _ int) ([]wire.AuditEntry, error) {
	return e.entries[since:], nil
}
