package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/federation"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/memory"
	"github.com/madarco/agentbox/relay/store/sqlite"
	"github.com/madarco/agentbox/relay/store/storetest"
)

const token = "a laptop's bearer"

// direct is a network without sockets. down makes it fail, lose eats an answer.
type direct struct {
	h          http.Handler
	down, lose atomic.Bool
	calls      atomic.Int64
}

func (d *direct) RoundTrip(r *http.Request) (*http.Response, error) {
	d.calls.Add(1)
	if d.down.Load() {
		return nil, errors.New("no route to the plane")
	}
	w := httptest.NewRecorder()
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	d.h.ServeHTTP(w, in)
	if d.lose.Swap(false) {
		return nil, errors.New("the answer was lost")
	}
	return w.Result(), nil
}

func plane(st federation.Store) *federation.Plane {
	return federation.New(federation.Config{Store: st, Laptops: map[string]store.TokenHash{"mine": store.HashToken(token)}, Log: slog.New(slog.DiscardHandler)})
}

func pushUp(t testing.TB, d *direct) *Store {
	t.Helper()
	s, err := New(Config{URL: "https://plane.example", Token: token, Transport: d})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	for name, open := range map[string]func(testing.TB) store.Store{
		"memory": func(testing.TB) store.Store { return memory.New(memory.Options{}) },
		"sqlite": func(t testing.TB) store.Store {
			st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "plane.db"), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return st
		},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.RunPushUp(t, func(t testing.TB) (storetest.PushUp, store.Store) {
				st := open(t)
				t.Cleanup(func() { _ = st.Close() })
				return pushUp(t, &direct{h: plane(st).Handler()}), st
			})
		})
	}
}

func TestThePlaneRefusesStrangersAndOldRoutes(t *testing.T) {
	st := memory.New(memory.Options{})
	h := plane(st).Handler()
	for _, row := range []struct {
		token, method, path, body string
		want                      int
	}{
		{"", "PUT", "/federation/pending", `{"pending":[]}`, 401},
		{"another", "PUT", "/federation/boxes/b0000000f", `{"name":"x"}`, 401},
		{token, "PUT", "/federation/boxes/..%2Fx", `{"name":"x"}`, 400},
		{token, "PUT", "/federation/boxes/b0000000f", `{"name":"x","token":"t"}`, 400},
		{token, "PUT", "/federation/boxes/b0000000f", `{"name":"Not A Name"}`, 400},
		{token, "GET", "/federation/boxes/b0000000f", "", 404},
		{token, "PUT", "/federation/boxes/b0000000f", `{"name":"x"}`, 204},
		{token, "POST", "/federation/boxes/b0000000f/events", `{"after":null,"events":[{"type":"t"}]}`, 200},
		{token, "POST", "/federation/boxes/b0000000f/events", `{"after":1,"events":[{"type":"credentials-updated","payload":"c2VjcmV0"}]}`, 200},
		{token, "PUT", "/federation/pending", strings.Repeat(" ", 3<<20), 413},
		{token, "POST", "/admin/store", `{"method":"getBox","args":["b0000000f"]}`, 410},
		{token, "GET", "/admin/events", "", 404},
	} {
		r := httptest.NewRequestWithContext(t.Context(), row.method, row.path, strings.NewReader(row.body))
		r.Header.Set("Authorization", "Bearer "+row.token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != row.want {
			t.Errorf("%s %s: %d %s; want %d", row.method, row.path, w.Code, w.Body, row.want)
		}
	}
	if all, err := st.Events(t.Context(), "b0000000f", 0, 10); err != nil || len(all) != 2 || all[1].Type != "relay.dropped" || all[1].Payload != nil {
		t.Errorf("null was not taken as absent, or a login was kept: %+v, %v", all, err)
	}
}

func TestAPlaneIsReachedByTLSOrOnThisMachine(t *testing.T) {
	for address, ok := range map[string]bool{
		"https://plane.example": true, "http://127.0.0.1:1": true, "http://plane.example": false,
		"https://user:pw@plane.example": false, "": false, "https://plane.example/?q": false,
	} {
		if _, err := New(Config{URL: address, Token: token}); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := New(Config{URL: "https://plane.example"}); err == nil {
		t.Error("a plane without a token was taken")
	}
}

// laptop is a store with a box, and a follower of it, in false time.
type laptop struct {
	t     *testing.T
	local *memory.Store
	up    *memory.Store
	plane *federation.Plane
	net   *direct
	file  string
	stop  func()
}

const boxID = "b00000001"

func inLaptop(t *testing.T, test func(*testing.T, *laptop)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "places.json")
	synctest.Test(t, func(t *testing.T) {
		l := &laptop{t: t, local: memory.New(memory.Options{}), up: memory.New(memory.Options{}), file: file}
		l.plane = plane(l.up)
		l.net = &direct{h: l.plane.Handler()}
		box := core.Box{ID: boxID, Name: "shop", ProjectRoot: "/home/user"}
		if _, err := l.local.RegisterBox(t.Context(), box, store.HashToken("box")); err != nil {
			t.Fatal(err)
		}
		l.start()
		defer func() { l.stop() }()
		test(t, l)
	})
}

func (l *laptop) start() {
	f := &Follower{Local: l.local, Up: pushUp(l.t, l.net), File: l.file, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	l.stop = func() {
		cancel()
		if err := <-done; err != nil {
			l.t.Error(err)
		}
	}
	synctest.Wait()
}

func (l *laptop) say(payload string) {
	l.t.Helper()
	if _, err := l.local.AppendEvent(l.t.Context(), boxID, wire.PostEvent{Type: "t", Payload: json.RawMessage(payload)}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *laptop) want(payloads string) {
	l.t.Helper()
	<-time.After(3 * time.Minute)
	synctest.Wait()
	all, err := l.up.Events(l.t.Context(), boxID, 0, 2*store.RingSize)
	if err != nil {
		l.t.Fatal(err)
	}
	var got []string
	for _, e := range all {
		got = append(got, string(e.Payload))
	}
	if strings.Join(got, " ") != payloads {
		l.t.Errorf("the plane has %v; want %s", got, payloads)
	}
}

func TestAPlaneThatWasAwayCatchesUp(t *testing.T) {
	inLaptop(t, func(t *testing.T, l *laptop) {
		l.say("1")
		l.want("1")
		l.net.down.Store(true)
		l.say("2")
		before := l.net.calls.Load()
		l.want("1")
		if n := l.net.calls.Load() - before; n > 40 {
			t.Errorf("%d calls to a plane that is away", n)
		}
		l.net.down.Store(false)
		l.want("1 2")
		l.net.lose.Store(true)
		l.say("3")
		l.want("1 2 3")
		l.stop()
		l.say("4")
		l.start()
		l.want("1 2 3 4")
	})
}

func TestAForgottenBoxIsForgottenUpThere(t *testing.T) {
	inLaptop(t, func(t *testing.T, l *laptop) {
		l.say("1")
		l.want("1")
		if _, err := l.local.ForgetBox(t.Context(), boxID); err != nil {
			t.Fatal(err)
		}
		l.want("")
		if _, err := l.up.Box(t.Context(), boxID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the plane's box: %v", err)
		}
	})
}

func TestAQuestionGoesUpAsFactsAlone(t *testing.T) {
	inLaptop(t, func(t *testing.T, l *laptop) {
		var sent strings.Builder
		next := l.net.h
		l.stop()
		l.net.h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			sent.Write(body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			next.ServeHTTP(w, r)
		})
		_, _, err := l.local.OpenApproval(t.Context(), store.Ask{
			BoxID: boxID, BoxName: "shop", Method: "git.push", Digest: "secret-digest", Message: "push main",
			Action: &wire.ActionApproval{}, Request: json.RawMessage(`{"secret":"secret-request"}`), TTL: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		l.start()
		<-time.After(time.Minute)
		synctest.Wait()
		if got := l.plane.Pending("mine"); len(got) != 1 || got[0].Message != "push main" {
			t.Errorf("the plane shows %+v", got)
		}
		l.stop()
		if text := sent.String(); strings.Contains(text, "secret-") || strings.Contains(text, "/home/user") {
			t.Errorf("sent %s", text)
		}
		<-time.After(federation.PendingTTL + time.Minute)
		if got := l.plane.Pending("mine"); len(got) != 0 {
			t.Errorf("a laptop that is gone still shows %+v", got)
		}
		l.start()
	})
}
