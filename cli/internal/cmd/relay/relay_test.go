package relay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/client"
	"github.com/madarco/agentbox/sandbox-core/state"
)

type life struct {
	Daemon
	health wire.Health
	err    error
}

func (l life) Status(context.Context) (wire.Health, error) { return l.health, l.err }

type service struct {
	factory.Relay
	forgotten []string
	pages     map[string]wire.EventList // by since
	ends      error
}

func (s *service) Forget(_ context.Context, id string) error {
	s.forgotten = append(s.forgotten, id)
	return nil
}

func (s *service) Events(_ context.Context, _, since string) (wire.EventList, error) {
	return s.pages[since], nil
}

func (s *service) Follow(_ context.Context, _, since string, each func(wire.Event) error) error {
	for _, e := range s.pages[since].Events {
		if err := each(e); err != nil {
			return err
		}
	}
	return s.ends
}

func options(s *streams.Streams, r *service) *Options {
	box := core.Box{ID: "b00000001", Name: "app"}
	return &Options{
		Streams: s, Relay: func(context.Context) (factory.Relay, error) { return r, nil },
		Box: func(ref string) (core.Box, error) { return state.Resolve([]core.Box{box}, ref, "/p") },
	}
}

func TestStatusOfARelay(t *testing.T) {
	s, _, out, _ := streams.Test()
	o := options(s, nil)
	o.Daemon = life{health: wire.Health{OK: true, PID: 7, Version: "v1", Boxes: 2, Pending: 1, Approvals: "off", Unasked: []core.BoxName{"web"}}}
	if err := RunStatus(t.Context(), o); err != nil || !strings.Contains(out.String(), "approvals   off\nnever asks  web\n") {
		t.Errorf("%v, %s", err, out)
	}
	s, _, out, _ = streams.Test()
	o = options(s, nil)
	o.Daemon, o.JSON = life{err: client.ErrNotRunning}, output.JSON{On: true}
	var exit fail.Exit
	if err := RunStatus(t.Context(), o); !errors.As(err, &exit) || exit != fail.Exit(fail.Relay) || !strings.HasPrefix(out.String(), `{"running":false`) {
		t.Errorf("%v, %s", err, out)
	}
	o.Daemon = life{err: errors.New("it hangs")}
	if err := RunStatus(t.Context(), o); err == nil || errors.As(err, &exit) {
		t.Errorf("a relay that hangs: %v", err)
	}
}

func TestForgetTakesABoxOrTheIdOfOneThatIsGone(t *testing.T) {
	r := &service{}
	for _, tc := range []struct {
		ref string
		ok  bool
	}{{"app", true}, {"b99999999", true}, {"nobody", false}, {"", false}, {"../x", false}} {
		s, _, _, _ := streams.Test()
		o := options(s, r)
		o.Ref = tc.ref
		if err := RunForget(t.Context(), o); (err == nil) != tc.ok {
			t.Errorf("%q: %v", tc.ref, err)
		}
	}
	if got := strings.Join(r.forgotten, " "); got != "b00000001 b99999999" {
		t.Errorf("forgot %s", got)
	}
}

func TestTailShowsTheBoxesTextQuoted(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	event := func(seq int64) wire.Event {
		return wire.Event{Seq: seq, BoxID: "b00000001", Type: "x\x1b[2J", ReceivedAt: at, Payload: json.RawMessage(`{"a":1}`)}
	}
	r := &service{pages: map[string]wire.EventList{
		"": {Events: []wire.Event{event(1)}, Next: "1"}, "1": {Events: []wire.Event{event(2)}, Next: "2"}, "2": {Next: "2"},
	}}
	s, _, out, _ := streams.Test()
	if err := RunTail(t.Context(), options(s, r)); err != nil {
		t.Fatal(err)
	}
	want := `2026-01-02T03:04:05Z  b00000001  1  "x\u001b[2J"  "{\"a\":1}"` + "\n" + `2026-01-02T03:04:05Z  b00000001  2  "x\u001b[2J"  "{\"a\":1}"` + "\n"
	if out.String() != want {
		t.Errorf("got %s", out)
	}
	s, _, out, _ = streams.Test()
	o := options(s, r)
	o.Follow, o.Since, o.JSON, r.ends = true, "1", output.JSON{On: true, Fields: []string{"seq"}}, io.EOF
	if err := RunTail(t.Context(), o); err == nil || fail.Of(err).Code != fail.Relay || out.String() != "{\"seq\":2}\n" {
		t.Errorf("%v, %s", err, out)
	}
}
