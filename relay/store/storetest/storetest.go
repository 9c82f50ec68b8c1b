// Package storetest is the suite that every driver of store passes: what a
// relay may rely on, whichever database is below it.
//
// A driver's test is one call of Run with a function that opens an empty store.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/relay/store"
)

// Open makes an empty store that reads the time from now. The suite closes it.
type Open func(t testing.TB, now func() time.Time) store.Store

// Clock is a time that moves only when a test says so.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// NewClock starts at the present, cut to what stores keep.
func NewClock() *Clock { return &Clock{at: time.Now().UTC().Truncate(time.Millisecond)} }

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Advance moves the clock on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// bench is what one test works with.
type bench struct {
	*testing.T
	ctx   context.Context
	store store.Store
	clock *Clock
}

// Run runs the suite.
func Run(t *testing.T, open Open) {
	groups := map[string]map[string]func(*bench){
		"boxes":     boxTests,
		"approvals": approvalTests,
		"work":      workTests,
		"audit":     auditTests,
		"events":    eventTests,
		"lifecycle": lifecycleTests,
	}
	for group, tests := range groups {
		t.Run(group, func(t *testing.T) {
			for name, test := range tests {
				t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
					t.Parallel()
					clock := NewClock()
					s := open(t, clock.Now)
					defer closeStore(t, s)
					test(&bench{T: t, ctx: t.Context(), store: s, clock: clock})
				})
			}
		})
	}
	t.Run("a wait ends at the deadline", func(t *testing.T) { waitsUntilTheDeadline(t, open) })
	t.Run("approvals follow the model", func(t *testing.T) { followsTheModel(t, open) })
}

func closeStore(t testing.TB, s store.Store) {
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

var lifecycleTests = map[string]func(*bench){
	"a closed store refuses": func(b *bench) {
		closeStore(b, b.store)
		closeStore(b, b.store)
		_, err := b.store.AppendAudit(b.ctx, entry("late"))
		b.wantErr(err, store.ErrClosed)
	},
	"a context that has ended prevents a write": func(b *bench) {
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		_, err := b.store.AppendAudit(ctx, entry("never"))
		b.wantErr(err, context.Canceled)
		head, err := b.store.AuditHead(b.ctx)
		b.noErr(err)
		if head.Seq != 0 {
			b.Fatalf("the write was done: head is %v", head)
		}
	},
	"prune keeps what is fresh and drops what is not": func(b *bench) {
		old := b.ask("box", "old", time.Hour)
		b.noErr2(b.store.AnswerApproval(b.ctx, old.ID, store.Reply{By: "operator"}))
		b.noErr(b.store.SaveResult(b.ctx, "box", "r1", "d", envelope("x")))
		b.clock.Advance(store.SettledTTL - time.Millisecond)
		live := b.ask("box", "live", 2*time.Hour)
		b.noErr(b.store.Prune(b.ctx))
		b.noErr2(b.store.Approval(b.ctx, old.ID))
		b.clock.Advance(time.Millisecond)
		b.noErr(b.store.Prune(b.ctx))
		_, err := b.store.Approval(b.ctx, old.ID)
		b.wantErr(err, store.ErrNotFound)
		b.noErr2(b.store.Approval(b.ctx, live.ID))
	},
}

func (b *bench) noErr(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) noErr2(_ any, err error) {
	b.Helper()
	b.noErr(err)
}

func (b *bench) wantErr(err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Fatalf("got error %v; want %v", err, want)
	}
}

// register registers a box named by its id.
func (b *bench) register(id string) {
	b.Helper()
	b.noErr2(b.store.RegisterBox(b.ctx, box(id), store.HashToken("token of "+id)))
}

func box(id string) core.Box {
	return core.Box{
		ID: id, Name: core.BoxName("box-" + id), Provider: "docker", CreatedAt: time.Unix(1700000000, 0).UTC(), ProjectRoot: "/home/u/p <&>",
		Repos: []core.Repo{{Key: "0123456789abcdef", Kind: "root", BoxPath: "/workspace", Branch: "agentbox/x", ObjectFormat: "sha1"}},
	}
}

// inParallel runs n calls at once and returns when all have.
func inParallel(n int, call func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			call(i)
		})
	}
	close(start)
	wg.Wait()
}

func entry(action string) store.Entry {
	return store.Entry{BoxID: "box", Actor: "policy", Action: action, Detail: json.RawMessage(`{"text": "<a> & b"}`)}
}

func payload(i int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)) }
