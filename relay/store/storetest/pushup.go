package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// PushUp is the half of a store that a laptop has at a plane.
type PushUp interface {
	RegisterBox(ctx context.Context, box core.Box) error
	ForgetBox(ctx context.Context, id string) (bool, error)
	SetStatus(ctx context.Context, boxID string, snapshot json.RawMessage) error
	AppendEvents(ctx context.Context, boxID string, after *int64, events []wire.PostEvent) (last int64, err error)
}

// OpenPushUp makes a PushUp and the empty store of the plane that it ends in.
type OpenPushUp func(t testing.TB) (PushUp, store.Store)

// federated has a valid id, as what crosses a socket must.
const federated = "b0000000f"

// RunPushUp runs the half of the suite that a PushUp can pass.
func RunPushUp(t *testing.T, open OpenPushUp) {
	for name, test := range pushUpTests {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			up, plane := open(t)
			test(&bench{T: t, ctx: t.Context(), store: plane}, up)
		})
	}
}

func federatedBox() core.Box {
	b := box(federated)
	b.Name, b.Provider, b.CreatedAt = "shop", "docker", time.Unix(1_700_000_000, 0).UTC()
	return b
}

var pushUpTests = map[string]func(*bench, PushUp){
	"a box arrives without the laptop's paths, again if it changes": func(b *bench, up PushUp) {
		sent := federatedBox()
		sent.ProjectRoot = "/home/user/secret"
		b.noErr(up.RegisterBox(b.ctx, sent))
		sent.ProjectIndex = 7
		b.noErr(up.RegisterBox(b.ctx, sent))
		reg, err := b.store.Box(b.ctx, federated)
		b.noErr(err)
		if reg.Box.Name != "shop" || reg.Box.ProjectIndex != 7 || len(reg.Box.Repos) != len(sent.Repos) {
			b.Errorf("got %+v", reg.Box)
		}
		if reg.Box.ProjectRoot != "" || reg.Box.Repos[0].CommonDir != "" || reg.Box.Repos[0].WorkTree != "" {
			b.Errorf("a path of the laptop arrived: %+v", reg.Box)
		}
	},
	"an unknown box has neither status nor events": func(b *bench, up PushUp) {
		b.wantErr(up.SetStatus(b.ctx, federated, json.RawMessage(`{}`)), store.ErrNotFound)
		_, err := up.AppendEvents(b.ctx, federated, nil, []wire.PostEvent{{Type: "t"}})
		b.wantErr(err, store.ErrNotFound)
		existed, err := up.ForgetBox(b.ctx, federated)
		b.noErr(err)
		if existed {
			b.Error("forgot what was not there")
		}
	},
	"the latest status is kept, and bounded": func(b *bench, up PushUp) {
		b.noErr(up.RegisterBox(b.ctx, federatedBox()))
		for n := range 2 {
			b.noErr(up.SetStatus(b.ctx, federated, json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))))
		}
		st, err := b.store.Status(b.ctx, federated)
		b.noErr(err)
		if string(st.Snapshot) != `{"n":1}` {
			b.Errorf("got %s", st.Snapshot)
		}
		b.wantErr(up.SetStatus(b.ctx, federated, json.RawMessage(`{`)), wire.ErrBadJSON)
		b.wantErr(up.SetStatus(b.ctx, federated, bigJSON(store.MaxStatusBytes+1)), store.ErrTooLarge)
		b.noErr(up.SetStatus(b.ctx, federated, bigJSON(store.MaxStatusBytes)))
	},
	"events arrive in order and once, whatever is sent again": func(b *bench, up PushUp) {
		b.noErr(up.RegisterBox(b.ctx, federatedBox()))
		one := []wire.PostEvent{{Type: "t", Payload: json.RawMessage(`1`)}, {Type: "t", Payload: json.RawMessage(`2`)}}
		last, err := up.AppendEvents(b.ctx, federated, nil, one)
		b.noErr(err)
		three := []wire.PostEvent{{Type: "t", Payload: json.RawMessage(`3`)}}
		for _, more := range [][]wire.PostEvent{three, three, append(three, wire.PostEvent{Type: "t", Payload: json.RawMessage(`4`)})} {
			_, err := up.AppendEvents(b.ctx, federated, &last, more)
			b.noErr(err)
		}
		var got []string
		all, err := b.store.Events(b.ctx, federated, 0, 100)
		b.noErr(err)
		for _, e := range all {
			got = append(got, string(e.Payload))
		}
		if strings.Join(got, " ") != "1 2 3 4" {
			b.Errorf("got %v", got)
		}
		_, err = up.AppendEvents(b.ctx, federated, &last, []wire.PostEvent{{Type: "t", Payload: bigJSON(store.MaxEventBytes)}})
		b.wantErr(err, store.ErrTooLarge)
	},
	"a login is never kept": func(b *bench, up PushUp) {
		b.noErr(up.RegisterBox(b.ctx, federatedBox()))
		if _, err := up.AppendEvents(b.ctx, federated, nil, []wire.PostEvent{{Type: "credentials-updated", Payload: json.RawMessage(`{"contentBase64":"c2VjcmV0"}`)}}); err == nil {
			b.Error("a login was taken")
		}
		all, err := b.store.Events(b.ctx, federated, 0, 100)
		b.noErr(err)
		if len(all) != 0 {
			b.Errorf("kept %+v", all)
		}
	},
	"a box of somebody else is not touched": func(b *bench, up PushUp) {
		b.noErr2(b.store.RegisterBox(b.ctx, federatedBox(), store.HashToken("the plane's own")))
		b.wantErr(up.RegisterBox(b.ctx, federatedBox()), store.ErrExists)
		b.wantErr(up.SetStatus(b.ctx, federated, json.RawMessage(`{}`)), store.ErrExists)
		_, err := up.AppendEvents(b.ctx, federated, nil, []wire.PostEvent{{Type: "t"}})
		b.wantErr(err, store.ErrExists)
		_, err = up.ForgetBox(b.ctx, federated)
		b.wantErr(err, store.ErrExists)
		b.noErr2(b.store.BoxByToken(b.ctx, store.HashToken("the plane's own")))
	},
	"a forgotten box is gone": func(b *bench, up PushUp) {
		b.noErr(up.RegisterBox(b.ctx, federatedBox()))
		existed, err := up.ForgetBox(b.ctx, federated)
		b.noErr(err)
		if !existed {
			b.Error("there was no box")
		}
		_, err = b.store.Box(b.ctx, federated)
		b.wantErr(err, store.ErrNotFound)
	},
}
