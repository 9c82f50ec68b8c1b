package storetest

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

func intent(boxID, digest, approvalID string) store.Intent {
	return store.Intent{
		BoxID: boxID, Method: "git.push", Digest: digest, ApprovalID: approvalID,
		Actor: "policy", Reason: "the box's own branch", Detail: json.RawMessage(`{"ref":"refs/heads/x"}`),
		Request: json.RawMessage(`{"ref":"refs/heads/x"}`),
	}
}

func (b *bench) begin(boxID, digest, approvalID string) store.Intent {
	b.Helper()
	in, err := b.store.Begin(b.ctx, intent(boxID, digest, approvalID))
	b.noErr(err)
	return in
}

func envelope(stdout string) wire.Envelope { return wire.Envelope{Stdout: stdout} }

func (b *bench) approved(boxID, digest string) store.Approval {
	b.Helper()
	a := b.ask(boxID, digest, time.Hour)
	b.answer(a.ID, true)
	return a
}

var workTests = map[string]func(*bench){
	"an intent is kept until its work ends": func(b *bench) {
		in := b.begin("b1", "d", "")
		b.noErr(b.store.SetChild(b.ctx, in.ID, store.Child{PID: 42, Started: "1234"}))
		all, err := b.store.Intents(b.ctx)
		b.noErr(err)
		in.Child = store.Child{PID: 42, Started: "1234"}
		if len(all) != 1 || !reflect.DeepEqual(all[0], in) {
			b.Fatalf("got %+v; want %+v", all, in)
		}
		b.noErr(b.store.End(b.ctx, in.ID, store.Outcome{}))
		b.wantErr(b.store.End(b.ctx, in.ID, store.Outcome{}), store.ErrNotFound)
		b.wantErr(b.store.SetChild(b.ctx, in.ID, store.Child{}), store.ErrNotFound)
		all, err = b.store.Intents(b.ctx)
		b.noErr(err)
		if len(all) != 0 {
			b.Errorf("intents are left: %v", all)
		}
		b.wantActions("work.begin", "work.end")
	},
	"an approval is executed once": func(b *bench) {
		a := b.approved("b1", "d")
		var won atomic.Int32
		inParallel(8, func(int) {
			_, err := b.store.Begin(b.ctx, intent("b1", "d", a.ID))
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, store.ErrSettled) && !errors.Is(err, store.ErrExists):
				b.Error(err)
			}
		})
		if won.Load() != 1 {
			b.Errorf("it was begun %d times", won.Load())
		}
		b.wantState(a.ID, wire.Executing)
		b.wantActions("approval.pending", "approval.approved", "work.begin")
	},
	"nothing runs without a yes to this very request": func(b *bench) {
		yes := b.approved("b1", "d")
		pending := b.ask("b1", "e", time.Hour)
		denied := b.ask("b1", "f", time.Hour)
		b.answer(denied.ID, false)
		other := intent("b1", "d", yes.ID)
		other.Method = "git.fetch"
		for _, test := range []struct {
			in   store.Intent
			want error
		}{
			{intent("b1", "x", yes.ID), store.ErrConflict},
			{intent("b2", "d", yes.ID), store.ErrConflict},
			{other, store.ErrConflict},
			{intent("b1", "e", pending.ID), store.ErrSettled},
			{intent("b1", "f", denied.ID), store.ErrSettled},
			{intent("b1", "d", "nothing"), store.ErrNotFound},
		} {
			_, err := b.store.Begin(b.ctx, test.in)
			b.wantErr(err, test.want)
		}
		all, err := b.store.Intents(b.ctx)
		b.noErr(err)
		if len(all) != 0 {
			b.Errorf("work was begun: %v", all)
		}
		b.begin("b1", "d", yes.ID)
	},
	"a failure settles the approval": func(b *bench) {
		a := b.approved("b1", "d")
		in := b.begin("b1", "d", a.ID)
		b.noErr(b.store.End(b.ctx, in.ID, store.Outcome{Failed: true, Summary: "stale info"}))
		if got := b.wantState(a.ID, wire.Failed); got.Result != "stale info" {
			b.Errorf("got result %q", got.Result)
		}
		_, err := b.store.Begin(b.ctx, intent("b1", "d", a.ID))
		b.wantErr(err, store.ErrSettled)
	},
	"the same request does not run beside itself": func(b *bench) {
		in := b.begin("b1", "d", "")
		_, err := b.store.Begin(b.ctx, intent("b1", "d", ""))
		b.wantErr(err, store.ErrExists)
		b.begin("b2", "d", "")
		b.noErr(b.store.End(b.ctx, in.ID, store.Outcome{}))
		b.begin("b1", "d", "")
	},
	"a request that has not begun leaves its yes alone": func(b *bench) {
		b.begin("b1", "d", "")
		a := b.approved("b1", "d")
		_, err := b.store.Begin(b.ctx, intent("b1", "d", a.ID))
		b.wantErr(err, store.ErrExists)
		b.wantState(a.ID, wire.Approved)
	},
	"no row, no run": func(b *bench) {
		a := b.approved("b1", "d")
		for _, bad := range []json.RawMessage{json.RawMessage(`{`), bigJSON(store.MaxDetailBytes)} {
			in := intent("b1", "d", a.ID)
			in.Detail = bad
			if _, err := b.store.Begin(b.ctx, in); err == nil {
				b.Fatal("work began without its audit entry")
			}
		}
		b.wantState(a.ID, wire.Approved)
		b.begin("b1", "d", a.ID)
	},
	"a result answers retries of its request":   answersRetries,
	"results of a box are bounded":              boundsResults,
	"a result that came without work is kept":   keepsRefusals,
	"an end is never refused for its size":      cutsResults,
	"an end wakes everyone who waits for it":    wakesJoiners,
	"ended work of a forgotten box is recorded": endsAfterForget,
}

func answersRetries(b *bench) {
	in := intent("b1", "d", "")
	in.RequestID = "r"
	begun, err := b.store.Begin(b.ctx, in)
	b.noErr(err)
	_, err = b.store.Result(b.ctx, "b1", "r", "d")
	b.wantErr(err, store.ErrNotFound)
	b.noErr(b.store.End(b.ctx, begun.ID, store.Outcome{Envelope: wire.Envelope{ExitCode: 3, Stdout: "out", Stderr: "<err>"}}))

	got, err := b.store.Result(b.ctx, "b1", "r", "d")
	b.noErr(err)
	if (got != wire.Envelope{ExitCode: 3, Stdout: "out", Stderr: "<err>"}) {
		b.Errorf("got %+v", got)
	}
	_, err = b.store.Begin(b.ctx, in)
	b.wantErr(err, store.ErrExists)
	_, err = b.store.Result(b.ctx, "b1", "r", "another")
	b.wantErr(err, store.ErrConflict)
	another := in
	another.Digest = "another"
	_, err = b.store.Begin(b.ctx, another)
	b.wantErr(err, store.ErrConflict)
	_, err = b.store.Result(b.ctx, "b2", "r", "d")
	b.wantErr(err, store.ErrNotFound)

	b.clock.Advance(store.ResultTTL - time.Millisecond)
	b.noErr2(b.store.Result(b.ctx, "b1", "r", "d"))
	b.clock.Advance(time.Millisecond)
	_, err = b.store.Result(b.ctx, "b1", "r", "d")
	b.wantErr(err, store.ErrNotFound)
	b.noErr2(b.store.Begin(b.ctx, in))
}

func boundsResults(b *bench) {
	big := wire.Envelope{Stdout: strings.Repeat("x", store.MaxResultBytes/2), Stderr: strings.Repeat("y", store.MaxResultBytes/2)}
	var refused error
	for i := range store.ResultBudget/store.MaxResultBytes + 1 {
		if refused = b.store.SaveResult(b.ctx, "b1", string(payload(i)), "d", big); refused != nil {
			break
		}
	}
	b.wantErr(refused, store.ErrTooMany)
	in := intent("b1", "d", "")
	in.RequestID = "r"
	_, err := b.store.Begin(b.ctx, in)
	b.wantErr(err, store.ErrTooMany)
	b.noErr(b.store.SaveResult(b.ctx, "b2", "r", "d", big))
	b.clock.Advance(store.ResultTTL)
	b.noErr2(b.store.Begin(b.ctx, in))
}

func keepsRefusals(b *bench) {
	b.noErr(b.store.SaveResult(b.ctx, "b1", "r", "d", envelope("first")))
	b.noErr(b.store.SaveResult(b.ctx, "b1", "r", "d", envelope("second")))
	b.wantErr(b.store.SaveResult(b.ctx, "b1", "r", "e", envelope("third")), store.ErrConflict)
	got, err := b.store.Result(b.ctx, "b1", "r", "d")
	b.noErr(err)
	if got.Stdout != "first" {
		b.Errorf("got %q", got.Stdout)
	}
}

func cutsResults(b *bench) {
	in := intent("b1", "d", "")
	in.RequestID = "r"
	begun, err := b.store.Begin(b.ctx, in)
	b.noErr(err)
	long := strings.Repeat("ü", store.MaxResultBytes)
	b.noErr(b.store.End(b.ctx, begun.ID, store.Outcome{Envelope: wire.Envelope{Stdout: long, Stderr: long}, Summary: long}))
	got, err := b.store.Result(b.ctx, "b1", "r", "d")
	b.noErr(err)
	if n := len(got.Stdout); n > store.MaxResultBytes/2 || n < store.MaxResultBytes/2-1 || !strings.HasPrefix(long, got.Stdout) {
		b.Errorf("%d bytes were kept", n)
	}
}

func wakesJoiners(b *bench) {
	a := b.approved("b1", "d")
	in := b.begin("b1", "d", a.ID)
	woken := make(chan store.Approval)
	for range 2 {
		go func() {
			got, err := store.WaitApproval(b.ctx, b.store, a.ID, wire.Executing)
			if err != nil {
				b.Error(err)
			}
			woken <- got
		}()
	}
	b.noErr(b.store.End(b.ctx, in.ID, store.Outcome{Envelope: envelope("pushed")}))
	for range 2 {
		if got := <-woken; got.State != wire.Done || got.Envelope.Stdout != "pushed" {
			b.Errorf("woken with %+v", got)
		}
	}
}

func endsAfterForget(b *bench) {
	b.register("b1")
	a := b.approved("b1", "d")
	in := b.begin("b1", "d", a.ID)
	b.noErr2(b.store.ForgetBox(b.ctx, "b1"))
	b.wantState(a.ID, wire.Executing)
	b.noErr(b.store.End(b.ctx, in.ID, store.Outcome{}))
	b.wantState(a.ID, wire.Done)
}
