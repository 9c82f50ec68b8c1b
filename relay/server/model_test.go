package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/memory"
)

// step is one thing that happens to approvals in the model test.
type step struct {
	Op string
	// Ref is which of a few requests it is about.
	Ref int
	// Yes and Wrong tell the answers: Wrong gives another request's digest.
	Yes, Wrong bool
	// After is for how long nothing happens.
	After time.Duration
}

const modelTTL = time.Hour

var steps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
	return step{
		Op:    rapid.SampledFrom([]string{"ask", "ask", "ask", "leave", "answer", "answer", "answer", "race", "finish", "finish", "crash", "forget", "wait"}).Draw(t, "op"),
		Ref:   rapid.IntRange(0, 2).Draw(t, "ref"),
		Yes:   rapid.Bool().Draw(t, "yes"),
		Wrong: rapid.IntRange(0, 4).Draw(t, "wrong") == 0,
		After: rapid.SampledFrom([]time.Duration{0, time.Minute, modelTTL + time.Second}).Draw(t, "after"),
	}
}), 1, 40)

// model drives a real server, and notes each breach of what approvals promise.
type model struct {
	*rig
	t *testing.T

	mu       sync.Mutex
	breaches []string
	yeses    map[string]int // answers that were taken, by ref
	ran      map[string]int // pushes that reached their end, by ref
	inWork   []chan struct{}
	leaves   map[string][]context.CancelFunc
	callers  sync.WaitGroup
}

func refName(i int) string { return fmt.Sprintf("refs/heads/r%d", i) }

func (m *model) breach(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.breaches = append(m.breaches, fmt.Sprintf(format, args...))
}

// childless is a gate whose work has no process of its own.
type childless struct {
	*fakeGate
	push func(context.Context, relay.PushRequest) (relay.PushResult, error)
}

func (g childless) Gate(context.Context, core.Box, core.Repo) (relay.Gate, error) { return g, nil }

func (g childless) Push(ctx context.Context, r relay.PushRequest, _ func(int) error) (relay.PushResult, error) {
	return g.push(ctx, r)
}

// work is what a push does. Whatever reaches it must stand on a yes that is its own.
func (m *model) work(ctx context.Context, r relay.PushRequest) (relay.PushResult, error) {
	ref := r.Updates[0].Ref
	running, err := m.store.Approvals(context.Background(), m.box.ID, wire.Executing)
	if err != nil {
		return relay.PushResult{}, err
	}
	mine := slices.DeleteFunc(running, func(a store.Approval) bool { return a.Push.Updates[0].Ref != ref })
	if len(mine) != 1 {
		m.breach("%s runs on %d yeses", ref, len(mine))
	} else if a := mine[0]; a.AnsweredBy == "" || !a.AnsweredAt.Before(a.Deadline) {
		m.breach("%s runs on %+v", ref, a)
	}
	end := make(chan struct{})
	m.mu.Lock()
	m.inWork = append(m.inWork, end)
	m.mu.Unlock()
	select {
	case <-end:
	case <-ctx.Done():
		return relay.PushResult{}, ctx.Err()
	}
	m.mu.Lock()
	m.ran[ref]++
	m.mu.Unlock()
	return took(r), nil
}

func (m *model) start() {
	m.Server = New(Config{
		Home: core.Home(m.t.TempDir()), Store: m.store, Gates: childless{m.gate, m.work}, ApprovalTTL: modelTTL, Policy: policy.Settings{Safe: true},
		Log: slog.New(slog.DiscardHandler),
	})
	if err := m.Recover(m.t.Context()); err != nil {
		m.breach("recover: %v", err)
	}
}

// ask is a caller who waits; it may be told that its push is done only if it is.
func (m *model) ask(ref string) {
	ctx, cancel := context.WithCancel(m.Context()) // as that of a request is
	m.mu.Lock()
	m.leaves[ref] = append(m.leaves[ref], cancel)
	m.mu.Unlock()
	srv := m.Server
	m.callers.Go(func() {
		o := m.order(policy.RefUpdate{Ref: ref, Old: oidA, New: oidB})
		o.gate = childless{m.gate, m.work}
		env, _, err := srv.push(ctx, o, silent)
		m.mu.Lock()
		defer m.mu.Unlock()
		if err == nil && env.ExitCode == wire.ExitOK && m.ran[ref] == 0 {
			m.breaches = append(m.breaches, ref+" was told to be done, and never ran")
		}
	})
}

// answer answers the newest question about a ref, as the user's command does.
func (m *model) answer(s step) {
	all, err := m.store.Approvals(context.Background(), m.box.ID)
	if err != nil {
		m.breach("list: %v", err)
	}
	for _, a := range slices.Backward(all) {
		if a.Push.Updates[0].Ref != refName(s.Ref) {
			continue
		}
		body := wire.Answer{ID: a.ID, Answer: "n", Digest: a.Digest}
		if s.Yes {
			body.Answer = "y"
		}
		if s.Wrong {
			body.Digest = strings.Repeat("0", 64)
		}
		raw, _ := json.Marshal(body) // has no value that can't be
		w := m.operate("POST", "/admin/prompts/answer", string(raw))
		taken := w.Code == 204
		if open := a.At(time.Now()).State == wire.Pending; taken && (!open || s.Wrong) {
			m.breach("%+v of %s was taken", s, a.State)
		}
		m.mu.Lock()
		if taken && s.Yes {
			m.yeses[refName(s.Ref)]++
		}
		m.mu.Unlock()
		return
	}
}

func (m *model) take(s step) {
	switch s.Op {
	case "ask":
		m.ask(refName(s.Ref))
	case "leave":
		m.mu.Lock()
		if l := m.leaves[refName(s.Ref)]; len(l) > 0 {
			l[0]()
			m.leaves[refName(s.Ref)] = l[1:]
		}
		m.mu.Unlock()
	case "answer":
		m.answer(s)
	case "race":
		var racing sync.WaitGroup
		for _, yes := range []bool{true, false, true} {
			one := s
			one.Yes = yes
			racing.Go(func() { m.answer(one) })
		}
		racing.Wait()
	case "finish":
		m.mu.Lock()
		if len(m.inWork) > 0 {
			close(m.inWork[0])
			m.inWork = m.inWork[1:]
		}
		m.mu.Unlock()
	case "crash":
		m.crash()
		m.start()
	case "forget":
		start := time.Now()
		if w := m.operate("POST", "/admin/forget-box", `{"boxId":"`+m.box.ID+`"}`); w.Code != 204 || time.Since(start) != 0 {
			m.breach("forget: %d after %v", w.Code, time.Since(start))
		}
		open, err := m.store.Approvals(context.Background(), m.box.ID, wire.Pending, wire.Approved)
		if err != nil || len(open) > 0 {
			m.breach("a forgotten box has %v, %v", open, err)
		}
		if _, err := m.store.RegisterBox(context.Background(), m.box, store.HashToken(m.token)); err != nil {
			m.breach("register: %v", err)
		}
	case "wait":
		<-time.After(s.After)
	}
	synctest.Wait()
}

// crash ends the server with whatever it was doing; nothing of it goes on.
func (m *model) crash() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	m.Close(ended)
	m.callers.Wait()
	m.inWork = nil
}

// check compares what ran with what was allowed.
func (m *model) check() []string {
	begun := map[string]int{}
	entries, err := m.store.Audit(context.Background(), 0, 100_000)
	if err != nil {
		m.breach("audit: %v", err)
	}
	for _, e := range entries {
		var d struct {
			Approval string `json:"approval"`
		}
		if e.Action == "work.begin" && json.Unmarshal(e.Detail, &d) == nil {
			if begun[d.Approval]++; d.Approval == "" || begun[d.Approval] > 1 {
				m.breach("%q was begun %d times", d.Approval, begun[d.Approval])
			}
		}
	}
	for ref, n := range m.ran {
		if n > m.yeses[ref] {
			m.breach("%s ran %d times on %d yeses", ref, n, m.yeses[ref])
		}
	}
	return m.breaches
}

// TestNothingRunsWithoutItsYes: whatever happens in whatever order, a request
// runs only on a live yes to this very request, and at most once for each.
func TestNothingRunsWithoutItsYes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := steps.Draw(rt, "steps")
		var breaches []string
		synctest.Test(t, func(t *testing.T) {
			m := &model{
				rig: &rig{t: t, store: memory.New(memory.Options{}), box: testBox("b00000001"), token: strings.Repeat("t", 64)},
				t:   t, yeses: map[string]int{}, ran: map[string]int{}, leaves: map[string][]context.CancelFunc{},
			}
			m.gate = &fakeGate{url: remoteURL, facts: policy.Facts{FastForward: true, Commits: 2, Files: 3}}
			if _, err := m.store.RegisterBox(t.Context(), m.box, store.HashToken(m.token)); err != nil {
				t.Fatal(err)
			}
			m.start()
			for _, s := range all {
				m.take(s)
			}
			m.crash()
			breaches = m.check()
			if err := m.store.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
				t.Error(err)
			}
		})
		if len(breaches) > 0 {
			rt.Fatalf("%s", strings.Join(breaches, "\n"))
		}
	})
}
