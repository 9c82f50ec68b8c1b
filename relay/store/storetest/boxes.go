package storetest

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

var boxTests = map[string]func(*bench){
	"a registration is found by id and by token": func(b *bench) {
		b.register("b1")
		byID, err := b.store.Box(b.ctx, "b1")
		b.noErr(err)
		if !reflect.DeepEqual(byID.Box, box("b1")) {
			b.Errorf("got box %+v; want %+v", byID.Box, box("b1"))
		}
		if byID.Token != store.HashToken("token of b1") || !byID.RegisteredAt.Equal(b.clock.Now()) {
			b.Errorf("got token %x at %v", byID.Token, byID.RegisteredAt)
		}
		byToken, err := b.store.BoxByToken(b.ctx, store.HashToken("token of b1"))
		b.noErr(err)
		if byToken.Box.ID != "b1" {
			b.Errorf("the token belongs to %q", byToken.Box.ID)
		}
	},
	"unknown boxes and tokens are not found": func(b *bench) {
		_, err := b.store.Box(b.ctx, "b1")
		b.wantErr(err, store.ErrNotFound)
		for _, token := range []string{"", "token of b1"} {
			_, err = b.store.BoxByToken(b.ctx, store.HashToken(token))
			b.wantErr(err, store.ErrNotFound)
		}
		_, err = b.store.BoxByToken(b.ctx, store.TokenHash{})
		b.wantErr(err, store.ErrNotFound)
	},
	"registering again replaces record and token": func(b *bench) {
		b.register("b1")
		changed := box("b1")
		changed.ProjectRoot = "/elsewhere"
		b.noErr2(b.store.RegisterBox(b.ctx, changed, store.HashToken("new")))
		_, err := b.store.BoxByToken(b.ctx, store.HashToken("token of b1"))
		b.wantErr(err, store.ErrNotFound)
		r, err := b.store.BoxByToken(b.ctx, store.HashToken("new"))
		b.noErr(err)
		if r.Box.ProjectRoot != "/elsewhere" {
			b.Errorf("got root %q", r.Box.ProjectRoot)
		}
	},
	"a token names one box": func(b *bench) {
		b.register("b1")
		_, err := b.store.RegisterBox(b.ctx, box("b2"), store.HashToken("token of b1"))
		b.wantErr(err, store.ErrExists)
		_, err = b.store.Box(b.ctx, "b2")
		b.wantErr(err, store.ErrNotFound)
	},
	"boxes are listed oldest first": func(b *bench) {
		for _, id := range []string{"b3", "b1", "b2"} {
			b.register(id)
			b.clock.Advance(time.Millisecond)
		}
		all, err := b.store.Boxes(b.ctx)
		b.noErr(err)
		var ids []string
		for _, r := range all {
			ids = append(ids, r.Box.ID)
		}
		if got := strings.Join(ids, " "); got != "b3 b1 b2" {
			b.Errorf("got %s", got)
		}
	},
	"what was returned is not what is kept": func(b *bench) {
		b.register("b1")
		r, err := b.store.Box(b.ctx, "b1")
		b.noErr(err)
		r.Box.Repos[0].Key = "changed"
		again, err := b.store.Box(b.ctx, "b1")
		b.noErr(err)
		if again.Box.Repos[0].Key != "0123456789abcdef" {
			b.Error("a caller changed the kept record")
		}
	},
	"a forgotten box leaves only its audit": forgets,
	"the latest status of a box is kept": func(b *bench) {
		b.wantErr(b.store.SetStatus(b.ctx, "b1", json.RawMessage(`{}`)), store.ErrNotFound)
		b.register("b1")
		b.register("b2")
		_, err := b.store.Status(b.ctx, "b1")
		b.wantErr(err, store.ErrNotFound)
		b.noErr(b.store.SetStatus(b.ctx, "b1", json.RawMessage(`{"state":"idle"}`)))
		b.clock.Advance(time.Second)
		b.noErr(b.store.SetStatus(b.ctx, "b1", json.RawMessage(`{"state":"working"}`)))
		st, err := b.store.Status(b.ctx, "b1")
		b.noErr(err)
		if string(st.Snapshot) != `{"state":"working"}` || st.BoxID != "b1" || !st.UpdatedAt.Equal(b.clock.Now()) {
			b.Errorf("got %+v", st)
		}
		all, err := b.store.Statuses(b.ctx)
		b.noErr(err)
		if len(all) != 1 || !reflect.DeepEqual(all[0], st) {
			b.Errorf("got statuses %+v", all)
		}
	},
	"a change of a status is told": func(b *bench) {
		b.register("b1")
		b.register("b2")
		changed, stop := b.store.Watch(store.StatusTopic("b1"))
		defer stop()
		b.noErr(b.store.SetStatus(b.ctx, "b2", json.RawMessage(`{}`)))
		select {
		case <-changed:
			b.Error("told of another box's")
		default:
		}
		b.noErr(b.store.SetStatus(b.ctx, "b1", json.RawMessage(`{}`)))
		select {
		case <-changed:
		default:
			b.Error("not told")
		}
		changed, stop = b.store.Watch(store.StatusTopic("b1"))
		defer stop()
		_, err := b.store.ForgetBox(b.ctx, "b1")
		b.noErr(err)
		select {
		case <-changed:
		default:
			b.Error("not told that the box is gone")
		}
	},
	"a status is JSON and bounded": func(b *bench) {
		b.register("b1")
		b.wantErr(b.store.SetStatus(b.ctx, "b1", json.RawMessage(`{`)), wire.ErrBadJSON)
		b.wantErr(b.store.SetStatus(b.ctx, "b1", bigJSON(store.MaxStatusBytes+1)), store.ErrTooLarge)
		b.noErr(b.store.SetStatus(b.ctx, "b1", bigJSON(store.MaxStatusBytes)))
	},
}

// bigJSON is a JSON string of exactly n bytes.
func bigJSON(n int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`)
}

func forgets(b *bench) {
	b.register("b1")
	b.noErr2(b.store.AppendEvent(b.ctx, "b1", wire.PostEvent{Type: "t"}))
	b.noErr(b.store.SetStatus(b.ctx, "b1", json.RawMessage(`{}`)))
	b.noErr(b.store.SaveResult(b.ctx, "b1", "r", "d", envelope("x")))
	question := b.ask("b1", "question", time.Hour)
	yes := b.ask("b1", "yes", time.Hour)
	b.noErr2(b.store.AnswerApproval(b.ctx, yes.ID, store.Reply{Yes: true, By: "operator"}))
	late := b.ask("b1", "late", time.Millisecond)
	b.clock.Advance(time.Millisecond)

	for _, want := range []bool{true, false} {
		existed, err := b.store.ForgetBox(b.ctx, "b1")
		b.noErr(err)
		if existed != want {
			b.Fatalf("forgot: %v; want %v", existed, want)
		}
	}
	_, err := b.store.Box(b.ctx, "b1")
	b.wantErr(err, store.ErrNotFound)
	_, err = b.store.Status(b.ctx, "b1")
	b.wantErr(err, store.ErrNotFound)
	_, err = b.store.Result(b.ctx, "b1", "r", "d")
	b.wantErr(err, store.ErrNotFound)
	events, err := b.store.Events(b.ctx, "b1", 0, 10)
	b.noErr(err)
	if len(events) != 0 {
		b.Errorf("events are left: %v", events)
	}
	b.wantState(question.ID, wire.Cancelled)
	b.wantState(yes.ID, wire.Cancelled)
	b.wantState(late.ID, wire.Expired)
	b.wantActions("approval.pending", "approval.pending", "approval.approved", "approval.pending",
		"approval.cancelled", "approval.cancelled", "approval.expired")
}
