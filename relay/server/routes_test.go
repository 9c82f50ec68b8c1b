package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// operatorSide serves the operator's routes to whoever connects.
func (g *rig) operatorSide() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.OperatorHandler().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, Peer{UID: 1, PID: 2})))
	})
}

// boxSide serves the box's routes to whoever connects.
func (g *rig) boxSide() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+g.token)
		g.BoxHandler(g.box.ID).ServeHTTP(w, r)
	})
}

// endless is a body of ten megabytes.
func endless() io.Reader { return io.LimitReader(blanks{}, 10<<20) }

type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestEveryRouteRefusesInJSON: whatever is wrong with a request, on either
// channel, the answer has the right status and says so in JSON.
func TestEveryRouteRefusesInJSON(t *testing.T) {
	g := newRig(t)
	type route struct{ method, path string }
	routes := func(m chi.Router) (all []route) {
		err := chi.Walk(m, func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			all = append(all, route{method, strings.NewReplacer("{key}", repoKey, "{id}", "a0").Replace(path)})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	send := func(h http.Handler, method, path, contentType string, body io.Reader, change ...func(*http.Request)) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, body).WithContext(t.Context())
		r.Header.Set("Content-Type", contentType)
		for _, c := range change {
			c(r)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	want := func(what string, w *httptest.ResponseRecorder, code int) {
		t.Helper()
		var e wire.Error
		if w.Code != code || json.Unmarshal(w.Body.Bytes(), &e) != nil || e.Error == "" {
			t.Errorf("%s: %d %s; want %d with an error in JSON", what, w.Code, w.Body, code)
		}
	}
	unnamed := g.boxRouter(func(*http.Request) (store.Registration, error) { return store.Registration{}, errToken })
	for name, ch := range map[string]struct {
		handler http.Handler
		routes  []route
	}{"operator": {g.operatorSide(), routes(g.operatorRouter())}, "box": {g.boxSide(), routes(unnamed)}} {
		for _, r := range ch.routes {
			what := name + " " + r.method + " " + r.path
			want(what+" of a page", send(ch.handler, r.method, r.path, "application/json", nil, func(r *http.Request) { r.Header.Set("Origin", "http://x") }), 403)
			if name == "box" && r.path != "/healthz" {
				want(what+" without a token", send(unnamed, r.method, r.path, "application/json", nil), 401)
			}
			if name == "operator" {
				want(what+" from nobody", send(g.OperatorHandler(), r.method, r.path, "application/json", nil), 403)
				for _, passed := range []string{"Forwarded", "Via", "X-Real-IP", "X-Forwarded-For", "X-Forwarded-Host", "Authorization"} {
					change := func(r *http.Request) { r.Header.Set(passed, "127.0.0.1") }
					want(what+" with "+passed, send(ch.handler, r.method, r.path, "application/json", nil, change), 403)
				}
			}
			for _, other := range []string{"PUT", "DELETE", "PATCH", "POST", "GET"} {
				if other != r.method {
					want(what+" by "+other, send(ch.handler, other, r.path, "application/json", nil), 405)
				}
			}
			if r.method != http.MethodPost || strings.HasPrefix(r.path, "/git/") || r.path == "/admin/land" || r.path == "/admin/shutdown" {
				continue
			}
			if name == "operator" {
				want(what+" as a form", send(ch.handler, r.method, r.path, "application/x-www-form-urlencoded", strings.NewReader("a=b")), 415)
			}
			want(what+" with ten megabytes", send(ch.handler, r.method, r.path, "application/json", endless()), 413)
			for _, bad := range []string{"{", "[]", `{"x":1}`, `{} {}`, "{\"\xff\":1}", `{"boxId":"a","boxId":"b"}`} {
				want(what+" with "+bad, send(ch.handler, r.method, r.path, "application/json", strings.NewReader(bad)), 400)
			}
		}
		for _, path := range []string{"/", "/admin%2fregistry", "/rpc/", "/rpc/status/a/b", "/healthz/x", "/remote/x", "/bridge/poll"} {
			if w := send(ch.handler, "GET", path, "", nil); w.Code != 404 && w.Code != 400 && w.Code != 403 || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s GET %s: %d %s", name, path, w.Code, w.Body)
			}
		}
	}
	for _, method := range []string{"git/push", "git.push/../x", "git..push", ".", "..", "/", "git.push ", "GIT.PUSH", "git.push\x00", "integration.", "integration.notion./..", "admin.registry", strings.Repeat("a.", 50)} {
		body, err := json.Marshal(wire.Request{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		want("the method "+method, send(g.boxSide(), "POST", "/rpc", "application/json", strings.NewReader(string(body))), 501)
		act, err := json.Marshal(wire.Act{BoxID: g.box.ID, Request: wire.Request{Method: method}})
		if err != nil {
			t.Fatal(err)
		}
		want("the action "+method, send(g.operatorSide(), "POST", "/admin/act", "application/json", strings.NewReader(string(act))), 501)
	}
}

// pipes is a listener of connections that exist in this process alone.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// serve serves a handler on pipes, in a bubble of synctest.
func (g *rig) serve(h http.Handler) (connect func() net.Conn) {
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	srv := NewHTTPServer(g.Context(), h, slog.New(slog.DiscardHandler))
	go func() { _ = srv.Serve(p) }()
	g.t.Cleanup(func() { _ = srv.Close() })
	return func() net.Conn {
		ours, theirs := net.Pipe()
		g.t.Cleanup(func() { _ = ours.Close() })
		p.conns <- theirs
		return ours
	}
}

// TestASlowBodyIsGivenUp: a client that never ends what it says holds nothing.
func TestASlowBodyIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		for path, code := range map[string]int{"/rpc": 408, "/events": 408, "/nowhere": 404} {
			start := time.Now()
			conn := g.serve(g.boxSide())()
			if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: relay\r\nContent-Length: 100\r\n\r\n{", path); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || resp.StatusCode != code || time.Since(start) != readTime {
				t.Errorf("%s: %v, %v after %v", path, resp, err, time.Since(start))
			}
		}
	})
}

// TestASlowReaderIsDropped, and holds up nobody meanwhile.
func TestASlowReaderIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		connect := g.serve(g.operatorSide())
		ask := func() net.Conn {
			conn := connect()
			if _, err := io.WriteString(conn, "GET /admin/prompts/stream HTTP/1.1\r\nHost: relay\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			return conn
		}
		slow, quick := ask(), ask()
		lines := bufio.NewScanner(quick)
		start := time.Now()
		if w := g.operate("POST", "/admin/notices/set", `{"boxId":"b00000001","kind":"checkpoint","message":"frozen"}`); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		for lines.Scan() && lines.Text() != "event: notice-set" {
		}
		if lines.Err() != nil || time.Since(start) != 0 {
			t.Errorf("the other one waited %v, %v", time.Since(start), lines.Err())
		}
		<-time.After(writeTime)
		synctest.Wait()
		if text, err := io.ReadAll(slow); err != nil || strings.Contains(string(text), "notice-set") {
			t.Errorf("the slow one is still served: %q, %v", text, err)
		}
	})
}
