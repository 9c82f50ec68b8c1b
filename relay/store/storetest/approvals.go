package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

func askFor(boxID, digest string, ttl time.Duration) store.Ask {
	return store.Ask{
		BoxID: boxID, BoxName: "fox", Method: "git.push", Digest: digest, Message: "push main", TTL: ttl,
		Request: json.RawMessage(`{"ref":"refs/heads/main"}`),
		Push: &wire.PushApproval{RepoKey: "k", Remote: "origin", Updates: []wire.PushedRef{{
			RefUpdate: policy.RefUpdate{Ref: "refs/heads/main"}, Reason: "the default branch",
		}}},
	}
}

// ask opens a question that is not open yet.
func (b *bench) ask(boxID, digest string, ttl time.Duration) store.Approval {
	b.Helper()
	a, opened, err := b.store.OpenApproval(b.ctx, askFor(boxID, digest, ttl))
	b.noErr(err)
	if !opened {
		b.Fatalf("joined %s; want a new approval", a.ID)
	}
	return a
}

func (b *bench) answer(id string, yes bool) {
	b.Helper()
	b.noErr2(b.store.AnswerApproval(b.ctx, id, store.Reply{Yes: yes, By: "operator", Note: "a note"}))
}

func (b *bench) wantState(id string, want wire.ApprovalState) store.Approval {
	b.Helper()
	a, err := b.store.Approval(b.ctx, id)
	b.noErr(err)
	if a.State != want {
		b.Errorf("approval %s of %s is %s; want %s", id, a.Digest, a.State, want)
	}
	return a
}

func (b *bench) wantJoin(boxID, digest, id string) {
	b.Helper()
	a, opened, err := b.store.OpenApproval(b.ctx, askFor(boxID, digest, time.Hour))
	b.noErr(err)
	if opened != (id == "") || id != "" && a.ID != id {
		b.Fatalf("got approval %s (new: %v); want %q", a.ID, opened, id)
	}
}

var approvalTests = map[string]func(*bench){
	"a question is kept whole": func(b *bench) {
		a := b.ask("b1", "d", time.Hour)
		got := b.wantState(a.ID, wire.Pending)
		if !reflect.DeepEqual(got, a) {
			b.Errorf("got %+v; want %+v", got, a)
		}
		if !got.Deadline.Equal(b.clock.Now().Add(time.Hour)) || string(got.Request) != `{"ref":"refs/heads/main"}` || got.Push.Updates[0].Reason != "the default branch" {
			b.Errorf("got %+v", got)
		}
		_, err := b.store.Approval(b.ctx, "nothing")
		b.wantErr(err, store.ErrNotFound)
	},
	"the same request joins while it is live": func(b *bench) {
		a := b.ask("b1", "d", time.Hour)
		b.wantJoin("b1", "d", a.ID)
		b.answer(a.ID, true)
		b.wantJoin("b1", "d", a.ID)
		in := b.begin("b1", "d", a.ID)
		b.wantJoin("b1", "d", a.ID)
		b.noErr(b.store.End(b.ctx, in.ID, store.Outcome{}))
		b.wantJoin("b1", "d", "")
	},
	"another box or digest does not join": func(b *bench) {
		b.ask("b1", "d", time.Hour)
		b.wantJoin("b2", "d", "")
		b.wantJoin("b1", "e", "")
	},
	"the same request asked at once is one question": func(b *bench) {
		var opened atomic.Int32
		inParallel(8, func(int) {
			_, fresh, err := b.store.OpenApproval(b.ctx, askFor("b1", "d", time.Hour))
			if err != nil {
				b.Error(err)
			}
			if fresh {
				opened.Add(1)
			}
		})
		if opened.Load() != 1 {
			b.Errorf("%d questions were opened", opened.Load())
		}
	},
	"of two answers one wins": func(b *bench) {
		a := b.ask("b1", "d", time.Hour)
		var won atomic.Int32
		inParallel(8, func(i int) {
			_, err := b.store.AnswerApproval(b.ctx, a.ID, store.Reply{Yes: i%2 == 0, By: "operator"})
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, store.ErrSettled):
				b.Error(err)
			}
		})
		if won.Load() != 1 {
			b.Errorf("%d answers won", won.Load())
		}
	},
	"an answer records who and why": func(b *bench) {
		a := b.ask("b1", "d", time.Hour)
		b.answer(a.ID, false)
		got := b.wantState(a.ID, wire.Denied)
		if got.AnsweredBy != "operator" || got.Note != "a note" || !got.AnsweredAt.Equal(b.clock.Now()) {
			b.Errorf("got %+v", got)
		}
	},
	"an answer to another digest changes nothing": func(b *bench) {
		a := b.ask("b1", "d", time.Hour)
		_, err := b.store.AnswerApproval(b.ctx, a.ID, store.Reply{Yes: true, Digest: "e"})
		b.wantErr(err, store.ErrConflict)
		b.wantState(a.ID, wire.Pending)
	},
	"at the deadline a question has expired": func(b *bench) {
		a := b.ask("b1", "d", time.Hour)
		b.clock.Advance(time.Hour - time.Millisecond)
		b.wantState(a.ID, wire.Pending)
		b.clock.Advance(time.Millisecond)
		b.wantState(a.ID, wire.Expired)
		_, err := b.store.AnswerApproval(b.ctx, a.ID, store.Reply{Yes: true})
		b.wantErr(err, store.ErrExpired)
		_, err = b.store.CancelApproval(b.ctx, a.ID, "operator", "")
		b.wantErr(err, store.ErrExpired)
		b.wantJoin("b1", "d", "")
	},
	"a yes that nobody used expires too": func(b *bench) {
		a := b.ask("b1", "d", time.Hour)
		b.answer(a.ID, true)
		b.clock.Advance(time.Hour)
		_, err := b.store.Begin(b.ctx, intent("b1", "d", a.ID))
		b.wantErr(err, store.ErrExpired)
		b.wantState(a.ID, wire.Expired)
		b.wantJoin("b1", "d", "")
	},
	"expiring returns each approval once": func(b *bench) {
		a := b.ask("b1", "d", time.Hour)
		b.ask("b1", "e", 2*time.Hour)
		b.clock.Advance(time.Hour)
		for _, want := range []int{1, 0} {
			expired, err := b.store.ExpireApprovals(b.ctx)
			b.noErr(err)
			if len(expired) != want {
				b.Fatalf("expired %v; want %d", expired, want)
			}
			for _, e := range expired {
				if e.ID != a.ID || e.State != wire.Expired {
					b.Errorf("expired %+v", e)
				}
			}
		}
		b.wantActions("approval.pending", "approval.pending", "approval.expired")
	},
	"work that has begun does not expire": func(b *bench) {
		a := b.ask("b1", "d", time.Hour)
		b.answer(a.ID, true)
		in := b.begin("b1", "d", a.ID)
		b.clock.Advance(2 * time.Hour)
		b.noErr2(b.store.ExpireApprovals(b.ctx))
		b.wantState(a.ID, wire.Executing)
		b.noErr(b.store.End(b.ctx, in.ID, store.Outcome{Envelope: envelope("pushed"), Summary: "pushed main"}))
		got := b.wantState(a.ID, wire.Done)
		if got.Result != "pushed main" || got.Envelope == nil || got.Envelope.Stdout != "pushed" {
			b.Errorf("got %+v", got)
		}
	},
	"a question and an unused yes can be withdrawn": func(b *bench) {
		a, y := b.ask("b1", "d", time.Hour), b.ask("b1", "e", time.Hour)
		b.answer(y.ID, true)
		for _, id := range []string{a.ID, y.ID} {
			b.noErr2(b.store.CancelApproval(b.ctx, id, "operator", "not now"))
			b.wantState(id, wire.Cancelled)
			_, err := b.store.CancelApproval(b.ctx, id, "operator", "")
			b.wantErr(err, store.ErrSettled)
		}
	},
	"a box has so many questions and no more": func(b *bench) {
		ask := func(boxID, digest string) error {
			q := askFor(boxID, digest, time.Hour)
			q.Limit = 2
			_, _, err := b.store.OpenApproval(b.ctx, q)
			return err
		}
		b.noErr(ask("b1", "1"))
		b.noErr(ask("b1", "2"))
		b.wantErr(ask("b1", "3"), store.ErrTooMany)
		b.noErr(ask("b1", "2")) // joins
		b.noErr(ask("b2", "1"))
		b.clock.Advance(time.Hour)
		b.noErr(ask("b1", "3")) // the old ones have expired, though nobody swept
	},
	"approvals are listed and counted as they stand": lists,
	"what is too large is refused": func(b *bench) {
		q := askFor("b1", "d", time.Hour)
		q.Request = bigJSON(store.MaxRequestBytes + 1)
		_, _, err := b.store.OpenApproval(b.ctx, q)
		b.wantErr(err, store.ErrTooLarge)
		q = askFor("b1", "d", time.Hour)
		q.Message = strings.Repeat("<", store.MaxTextBytes)
		_, _, err = b.store.OpenApproval(b.ctx, q)
		b.wantErr(err, store.ErrTooLarge)

		// The largest texts fit in the audit, in their longest spelling too.
		q.Message = strings.Repeat("<", store.MaxTextBytes-len(q.Method)-len(q.Digest))
		a, _, err := b.store.OpenApproval(b.ctx, q)
		b.noErr(err)
		_, err = b.store.AnswerApproval(b.ctx, a.ID, store.Reply{Note: strings.Repeat("<", store.MaxTextBytes+1)})
		b.wantErr(err, store.ErrTooLarge)
		b.noErr2(b.store.AnswerApproval(b.ctx, a.ID, store.Reply{Note: strings.Repeat("<", store.MaxTextBytes)}))
	},
	"a waiter is woken by the answer": func(b *bench) {
		a := b.ask("b1", "d", time.Hour)
		woken := make(chan store.Approval)
		for range 3 {
			go func() {
				got, err := store.WaitApproval(b.ctx, b.store, a.ID, wire.Pending)
				if err != nil {
					b.Error(err)
				}
				woken <- got
			}()
		}
		b.answer(a.ID, true)
		for range 3 {
			if got := <-woken; got.State != wire.Approved || got.Note != "a note" {
				b.Errorf("woken with %+v", got)
			}
		}
	},
	"a waiter that leaves changes nothing": func(b *bench) {
		a := b.ask("b1", "d", time.Hour)
		ctx, cancel := context.WithCancel(b.ctx)
		left := make(chan error)
		go func() {
			_, err := store.WaitApproval(ctx, b.store, a.ID, wire.Pending)
			left <- err
		}()
		cancel()
		b.wantErr(<-left, context.Canceled)
		b.answer(a.ID, true)
		b.wantJoin("b1", "d", a.ID)
		b.begin("b1", "d", a.ID)
	},
}

func lists(b *bench) {
	first := b.ask("b1", "1", time.Hour)
	second := b.ask("b2", "2", 2*time.Hour)
	third := b.ask("b1", "3", 2*time.Hour)
	b.answer(third.ID, true)
	b.clock.Advance(time.Hour)
	for _, test := range []struct {
		box    string
		states []wire.ApprovalState
		want   []string
	}{
		{"", nil, []string{first.ID, second.ID, third.ID}},
		{"b1", nil, []string{first.ID, third.ID}},
		{"", []wire.ApprovalState{wire.Pending}, []string{second.ID}},
		{"b1", []wire.ApprovalState{wire.Pending}, nil},
		{"b1", []wire.ApprovalState{wire.Expired, wire.Approved}, []string{first.ID, third.ID}},
		{"b9", nil, nil},
	} {
		found, err := b.store.Approvals(b.ctx, test.box, test.states...)
		b.noErr(err)
		var ids []string
		for _, a := range found {
			ids = append(ids, a.ID)
		}
		if !reflect.DeepEqual(ids, test.want) {
			b.Errorf("of %q in %v: got %v; want %v", test.box, test.states, ids, test.want)
		}
	}
	for boxID, want := range map[string]int{"": 1, "b1": 0, "b2": 1} {
		n, err := b.store.PendingApprovals(b.ctx, boxID)
		b.noErr(err)
		if n != want {
			b.Errorf("%d questions of %q are pending; want %d", n, boxID, want)
		}
	}
}

// waitsUntilTheDeadline needs the real clock: the wait itself must end.
func waitsUntilTheDeadline(t *testing.T, open Open) {
	s := open(t, time.Now)
	defer closeStore(t, s)
	b := &bench{T: t, ctx: t.Context(), store: s}
	a := b.ask("b1", "d", 5*time.Millisecond)
	got, err := store.WaitApproval(b.ctx, s, a.ID, wire.Pending)
	b.noErr(err)
	if got.State != wire.Expired {
		t.Errorf("the wait ended with %s", got.State)
	}
	b.wantActions("approval.pending", "approval.expired")
}
