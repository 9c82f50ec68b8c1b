package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
	"pgregory.net/rapid"
)

// followsTheModel drives a store with random calls beside a plain model of
// what a person would expect: nothing is executed without a live, matching,
// unexpired yes, and nothing twice.
func followsTheModel(t *testing.T, open Open) {
	rapid.Check(t, func(rt *rapid.T) {
		clock := NewClock()
		s := open(t, clock.Now)
		defer closeStore(t, s)
		m := &model{ctx: t.Context(), store: s, clock: clock, running: map[string]*question{}}
		rt.Repeat(map[string]func(*rapid.T){
			"ask":    m.ask,
			"answer": m.answer,
			"begin":  m.begin,
			"end":    m.end,
			"cancel": m.cancel,
			"advance": func(rt *rapid.T) {
				clock.Advance(time.Duration(rapid.IntRange(1, 20).Draw(rt, "minutes")) * time.Minute)
			},
			"sweep":  m.sweep,
			"forget": m.forget,
			"":       m.check,
		})
	})
}

type model struct {
	ctx       context.Context
	store     store.Store
	clock     *Clock
	questions []*question
	running   map[string]*question // by intent
}

// question is what the model knows of an approval.
type question struct {
	id, box, digest string
	deadline        time.Time
	said            string // "", "yes", "no", "withdrawn"
	began, ended    int
	failed          bool
}

func (q *question) state(now time.Time) wire.ApprovalState {
	switch {
	case q.ended > 0 && q.failed:
		return wire.Failed
	case q.ended > 0:
		return wire.Done
	case q.began > 0:
		return wire.Executing
	case q.said == "no":
		return wire.Denied
	case q.said == "withdrawn":
		return wire.Cancelled
	case !now.Before(q.deadline):
		return wire.Expired
	case q.said == "yes":
		return wire.Approved
	}
	return wire.Pending
}

var (
	boxIDs  = rapid.SampledFrom([]string{"b1", "b2"})
	digests = rapid.SampledFrom([]string{"d1", "d2", "d3"})
)

func (m *model) pick(rt *rapid.T) *question {
	if len(m.questions) == 0 {
		rt.Skip("no question yet")
	}
	return rapid.SampledFrom(m.questions).Draw(rt, "question")
}

func (m *model) live(box, digest string) *question {
	for _, q := range m.questions {
		if q.box == box && q.digest == digest && store.Live(q.state(m.clock.Now())) {
			return q
		}
	}
	return nil
}

func (m *model) ask(rt *rapid.T) {
	box, digest := boxIDs.Draw(rt, "box"), digests.Draw(rt, "digest")
	ttl := time.Duration(rapid.IntRange(1, 60).Draw(rt, "ttl")) * time.Minute
	want := m.live(box, digest)
	a, opened, err := m.store.OpenApproval(m.ctx, askFor(box, digest, ttl))
	switch {
	case err != nil:
		rt.Fatal(err)
	case opened != (want == nil):
		rt.Fatalf("asked for %s of %s: opened %v; want %v", digest, box, opened, want)
	case want != nil && want.id != a.ID:
		rt.Fatalf("joined %s; want %s", a.ID, want.id)
	case opened:
		m.questions = append(m.questions, &question{id: a.ID, box: box, digest: digest, deadline: m.clock.Now().Add(ttl)})
	}
}

// expect is the error of a move from a state that does not allow it.
func expect(allowed bool, state wire.ApprovalState) error {
	switch {
	case allowed:
		return nil
	case state == wire.Expired:
		return store.ErrExpired
	}
	return store.ErrSettled
}

func sameError(rt *rapid.T, what string, got, want error) {
	if !errors.Is(got, want) || want == nil && got != nil {
		rt.Fatalf("%s: got error %v; want %v", what, got, want)
	}
}

func (m *model) answer(rt *rapid.T) {
	q, yes := m.pick(rt), rapid.Bool().Draw(rt, "yes")
	digest := rapid.SampledFrom([]string{"", q.digest, "other"}).Draw(rt, "digest")
	state := q.state(m.clock.Now())
	want := expect(state == wire.Pending, state)
	if digest == "other" {
		want = store.ErrConflict
	}
	_, err := m.store.AnswerApproval(m.ctx, q.id, store.Reply{Yes: yes, Digest: digest, By: "operator"})
	sameError(rt, "answer "+q.id, err, want)
	if err == nil {
		q.said = map[bool]string{true: "yes", false: "no"}[yes]
	}
}

func (m *model) cancel(rt *rapid.T) {
	q := m.pick(rt)
	state := q.state(m.clock.Now())
	_, err := m.store.CancelApproval(m.ctx, q.id, "operator", "")
	sameError(rt, "cancel "+q.id, err, expect(state == wire.Pending || state == wire.Approved, state))
	if err == nil {
		q.said = "withdrawn"
	}
}

func (m *model) begin(rt *rapid.T) {
	q := m.pick(rt)
	box, digest := boxIDs.Draw(rt, "box"), digests.Draw(rt, "digest")
	if rapid.Bool().Draw(rt, "its own") {
		box, digest = q.box, q.digest
	}
	state := q.state(m.clock.Now())
	in, err := m.store.Begin(m.ctx, intent(box, digest, q.id))
	if box != q.box || digest != q.digest {
		if err == nil {
			rt.Fatalf("%s of %s ran on the yes to %s of %s", digest, box, q.digest, q.box)
		}
		return
	}
	if state == wire.Executing { // refused twice over, by the approval and by the work
		if err == nil {
			rt.Fatalf("%s ran beside itself", q.id)
		}
		return
	}
	sameError(rt, "begin "+q.id, err, expect(state == wire.Approved, state))
	if err == nil {
		q.began++
		m.running[in.ID] = q
	}
}

func (m *model) end(rt *rapid.T) {
	failed := rapid.Bool().Draw(rt, "failed")
	for id, q := range m.running {
		if err := m.store.End(m.ctx, id, store.Outcome{Failed: failed}); err != nil {
			rt.Fatal(err)
		}
		q.ended, q.failed = q.ended+1, failed
		delete(m.running, id)
	}
}

func (m *model) sweep(rt *rapid.T) {
	if _, err := m.store.ExpireApprovals(m.ctx); err != nil {
		rt.Fatal(err)
	}
}

func (m *model) forget(rt *rapid.T) {
	box := boxIDs.Draw(rt, "box")
	if _, err := m.store.ForgetBox(m.ctx, box); err != nil {
		rt.Fatal(err)
	}
	for _, q := range m.questions {
		if s := q.state(m.clock.Now()); q.box == box && (s == wire.Pending || s == wire.Approved) {
			q.said = "withdrawn"
		}
	}
}

func (m *model) check(rt *rapid.T) {
	all, err := m.store.Approvals(m.ctx, "")
	if err != nil {
		rt.Fatal(err)
	}
	if len(all) != len(m.questions) {
		rt.Fatalf("%d approvals are kept; want %d", len(all), len(m.questions))
	}
	pending := 0
	for i, q := range m.questions {
		want := q.state(m.clock.Now())
		if all[i].ID != q.id || all[i].State != want {
			rt.Fatalf("approval %s is %s; want %s to be %s", all[i].ID, all[i].State, q.id, want)
		}
		if q.began > 1 || q.began > 0 && q.said != "yes" {
			rt.Fatalf("%s ran %d times on %q", q.id, q.began, q.said)
		}
		if want == wire.Pending {
			pending++
		}
	}
	if n, err := m.store.PendingApprovals(m.ctx, ""); err != nil || n != pending {
		rt.Fatalf("%d are pending (%v); want %d", n, err, pending)
	}
}
