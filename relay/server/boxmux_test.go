package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/store"
)

func TestBoxChannelHasNoOperatorRoute(t *testing.T) {
	g := newRig(t)
	for name, router := range map[string]chi.Router{
		"own":    g.boxRouter(func(*http.Request) (store.Registration, error) { return store.Registration{}, nil }),
		"shared": g.boxRouter(func(*http.Request) (store.Registration, error) { return store.Registration{}, errToken }),
	} {
		err := chi.Walk(router, func(_, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			if strings.Contains(route, "admin") {
				return fmt.Errorf("%s has %s", name, route)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	var operator []string
	_ = chi.Walk(g.operatorRouter(), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		operator = append(operator, method+" "+route)
		return nil
	})
	for _, route := range operator {
		method, path, _ := strings.Cut(route, " ")
		if path == "/healthz" {
			continue
		}
		if w := g.do(method, path, "{}"); w.Code != http.StatusForbidden {
			t.Errorf("%s on a box's channel answers %d; want 403", route, w.Code)
		}
	}
	for _, path := range []string{"/admin", "/admin/", "/admin/x/y"} {
		if w := g.do("GET", path, ""); w.Code != http.StatusForbidden {
			t.Errorf("%s answers %d; want 403", path, w.Code)
		}
	}
}

func TestTokenIsTheBoxsOwn(t *testing.T) {
	g := newRig(t)
	other := testBox("b00000002")
	other.Name = "two"
	if _, err := g.store.RegisterBox(t.Context(), other, store.HashToken(strings.Repeat("o", 64))); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		header string
		code   int
	}{
		"own":              {"Bearer " + g.token, 202},
		"own, other case":  {"bearer " + g.token, 202},
		"none":             {"", 401},
		"wrong":            {"Bearer " + strings.Repeat("x", 64), 401},
		"another box's":    {"Bearer " + strings.Repeat("o", 64), 401},
		"a prefix":         {"Bearer " + g.token[:63], 401},
		"basic":            {"Basic " + g.token, 401},
		"empty bearer":     {"Bearer ", 401},
		"two tokens glued": {"Bearer " + g.token + " " + g.token, 401},
	} {
		t.Run(name, func(t *testing.T) {
			for _, target := range []string{"POST /events", "POST /rpc", "GET /rpc/status/x", "GET /git/" + repoKey + "/info/refs?service=git-upload-pack"} {
				method, path, _ := strings.Cut(target, " ")
				r := httptest.NewRequest(method, path, strings.NewReader(`{"type":"ping"}`))
				if tc.header != "" {
					r.Header.Set("Authorization", tc.header)
				}
				w := httptest.NewRecorder()
				g.BoxHandler(g.box.ID).ServeHTTP(w, r)
				if got := w.Code == 401; got != (tc.code == 401) {
					t.Errorf("%s answers %d; want %d", target, w.Code, tc.code)
				}
			}
		})
	}
	entries, err := g.store.Audit(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	refused, foreign := 0, false
	for _, e := range entries {
		if e.Action == "channel.refuse" && e.BoxID == g.box.ID {
			refused++
			foreign = foreign || strings.Contains(string(e.Detail), `"tokenOf":"b00000002"`)
		}
	}
	if refused == 0 || refused > burst+1 {
		t.Errorf("%d refusals were audited; want some, and not one for each", refused)
	}
	if !foreign {
		// The order of the table is random: ask once more, past the limiter.
		g.refusals = limiter{}
		r := httptest.NewRequest("POST", "/rpc", nil)
		r.Header.Set("Authorization", "Bearer "+strings.Repeat("o", 64))
		g.BoxHandler(g.box.ID).ServeHTTP(httptest.NewRecorder(), r)
		if last := g.lastAudit(); !strings.Contains(string(last.Detail), `"tokenOf":"b00000002"`) {
			t.Errorf("the audit log does not say whose token it was: %s", last.Detail)
		}
	}
}

// TestABoxDoesNotFillTheLog: it can make requests fail as fast as it likes.
func TestABoxDoesNotFillTheLog(t *testing.T) {
	var log bytes.Buffer
	g := newRig(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 1000 {
		g.explain(g.box.ID, errors.New("git upload-pack: not our ref"))
		g.explain(g.box.ID, relay.ErrBusy)
	}
	if lines := strings.Count(log.String(), "\n"); lines == 0 || lines > 2*burst {
		t.Errorf("%d lines were logged; want some, and not one for each", lines)
	}
	if before := log.Len(); g.explain("b00000002", errors.New("another box's")) == "" || log.Len() == before {
		t.Error("what goes wrong for another box is not logged")
	}
}

func (g *rig) lastAudit() wire.AuditEntry {
	g.t.Helper()
	entries, err := g.store.Audit(g.t.Context(), 0, 1000)
	if err != nil || len(entries) == 0 {
		g.t.Fatal(err)
	}
	return entries[len(entries)-1]
}

func TestForgottenBoxIsNobody(t *testing.T) {
	g := newRig(t)
	if w := g.operate("POST", "/admin/forget-box", `{"boxId":"b00000001"}`); w.Code != 204 {
		t.Fatalf("forget answers %d %s", w.Code, w.Body)
	}
	if w := g.do("POST", "/events", `{"type":"x"}`); w.Code != 401 {
		t.Errorf("its token still answers %d", w.Code)
	}
	if w := g.operate("POST", "/admin/forget-box", `{"boxId":"b00000001"}`); w.Code != 204 {
		t.Errorf("forgetting again answers %d", w.Code)
	}
}

func TestSharedChannelKnowsBoxesByTokenAndItsHostOnly(t *testing.T) {
	g := newRig(t)
	h := g.SharedBoxHandler([]string{"127.0.0.1:8787"})
	for name, tc := range map[string]struct {
		path, host, token string
		code              int
	}{
		"box":          {"/events", "127.0.0.1:8787", g.token, 202},
		"no token":     {"/events", "127.0.0.1:8787", "", 401},
		"wrong token":  {"/events", "127.0.0.1:8787", "x", 401},
		"rebound page": {"/events", "evil.example.com:8787", g.token, 421},
		"operator":     {"/admin/registry", "127.0.0.1:8787", g.token, 403},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("POST", tc.path, strings.NewReader(`{"type":"x"}`))
			r.Host = tc.host
			r.Header.Set("X-Forwarded-For", "127.0.0.1")
			if tc.token != "" {
				r.Header.Set("Authorization", "Bearer "+tc.token)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tc.code {
				t.Errorf("answers %d; want %d", w.Code, tc.code)
			}
		})
	}
}

func TestPagesAndCrookedPathsAreRefused(t *testing.T) {
	g := newRig(t)
	for name, change := range map[string]func(*http.Request){
		"origin":     func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:8788") },
		"cross-site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") },
	} {
		r := httptest.NewRequest("GET", "/healthz", nil)
		change(r)
		for side, h := range map[string]http.Handler{"box": g.BoxHandler(g.box.ID), "operator": g.OperatorHandler()} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != 403 {
				t.Errorf("%s on the %s side answers %d; want 403", name, side, w.Code)
			}
		}
	}
	for _, target := range []string{"//rpc", "/./rpc", "/x/../rpc", "/rpc/", "/%72pc", "/git/" + repoKey + ";x/info/refs", `/git\rpc`} {
		r := httptest.NewRequest("POST", "/rpc", strings.NewReader(`{"method":"git.push"}`))
		u, err := url.ParseRequestURI(target)
		if err != nil {
			continue // the server's own parser refuses it, too
		}
		r.URL = u
		r.Header.Set("Authorization", "Bearer "+g.token)
		w := httptest.NewRecorder()
		g.BoxHandler(g.box.ID).ServeHTTP(w, r)
		if w.Code != 404 {
			t.Errorf("%s answers %d; want 404", target, w.Code)
		}
	}
}

func TestBodiesAreHeldToOneMeaning(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		code int
	}{
		"over the bound":   {`{"method":"x","params":"` + strings.Repeat("a", 1<<20) + `"}`, 413},
		"empty":            {"", 400},
		"null":             {"null", 400},
		"a list":           {"[]", 400},
		"method a number":  {`{"method":1}`, 400},
		"trailing":         {`{"method":"git.push"} trailing`, 400},
		"no UTF-8":         {"{\"method\":\"\xff\xfe\"}", 400},
		"unknown key":      {`{"method":"git.push","argv":[]}`, 400},
		"key in two cases": {`{"method":"git.push","Method":"x"}`, 400},
		"deep":             {strings.Repeat("[", 100000), 400},
		"cut":              {`{"method"`, 400},
		"unknown method":   {`{"method":"nope"}`, 501},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			w := g.do("POST", "/rpc", tc.body)
			var e wire.Error
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != tc.code || e.Error == "" {
				t.Errorf("answers %d %s; want %d and a JSON error", w.Code, w.Body, tc.code)
			}
			if len(g.gate.pushed()) > 0 {
				t.Error("something ran")
			}
			if w := g.do("POST", "/events", `{"type":"ping","payload":{}}`); w.Code != 202 {
				t.Errorf("the next good request answers %d", w.Code)
			}
		})
	}
}

func TestCutOffBodyIsABadRequest(t *testing.T) {
	g := newRig(t)
	srv := httptest.NewServer(g.BoxHandler(g.box.ID))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /rpc HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 500\r\n\r\n{\"method\"", g.token)
	_ = conn.(*net.TCPConn).CloseWrite()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Errorf("answers %d; want 400", resp.StatusCode)
	}
}

func TestEventsOfABox(t *testing.T) {
	g := newRig(t)
	for name, tc := range map[string]struct {
		body string
		code int
		want string
	}{
		"event":               {`{"type":"service-state","payload":{"state":"ready"}}`, 202, `"id":1`},
		"no type":             {`{}`, 400, ""},
		"the relay's own":     {`{"type":"relay.git.push"}`, 400, ""},
		"a forged approval":   {`{"type":"host-action-auto-approved"}`, 400, ""},
		"login":               {`{"type":"credentials-updated","payload":{"secret":"hunter2"}}`, 202, `"accepted":false`},
		"status":              {`{"type":"box-status","payload":{"schema":1,"boxId":"b00000001"}}`, 202, `"ok":true`},
		"status of another":   {`{"type":"box-status","payload":{"schema":1,"boxId":"b00000002"}}`, 400, ""},
		"status of no schema": {`{"type":"box-status","payload":{"boxId":"b00000001"}}`, 400, ""},
		"large":               {`{"type":"x","payload":"` + strings.Repeat("a", 64<<10) + `"}`, 413, ""},
	} {
		if w := g.do("POST", "/events", tc.body); w.Code != tc.code || !strings.Contains(w.Body.String(), tc.want) {
			t.Errorf("%s: answers %d %s; want %d with %s", name, w.Code, w.Body, tc.code, tc.want)
		}
	}
	w := g.operate("GET", "/admin/events?box=b00000001", "")
	var list wire.EventList
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Events) != 1 || list.Next != "1" {
		t.Errorf("the user sees %s, %v", w.Body, err)
	}
	if strings.Contains(w.Body.String(), "hunter2") {
		t.Error("a login is in the event log")
	}
	all := g.operate("GET", "/admin/events", "")
	if err := json.Unmarshal(all.Body.Bytes(), &list); err != nil || len(list.Events) != 1 {
		t.Errorf("of all boxes the user sees %s, %v", all.Body, err)
	}
	if w := g.operate("GET", "/admin/events?since="+list.Next, ""); !strings.Contains(w.Body.String(), `"events":[]`) {
		t.Errorf("after the cursor the user sees %s", w.Body)
	}
	for _, since := range []string{"box=b00000001&since=x", "box=b00000001&since=-1", "since=zzz"} {
		if w := g.operate("GET", "/admin/events?"+since, ""); w.Code != 400 {
			t.Errorf("%s answers %d; want 400", since, w.Code)
		}
	}
}

func TestStatusOfAQuestionIsItsBoxsAlone(t *testing.T) {
	g := newRig(t)
	done := make(chan struct{})
	go func() { defer close(done); _, _, _ = g.push(t.Context(), g.order(toMain), silent) }()
	a := g.pending()
	if w := g.do("GET", "/rpc/status/"+a.ID, ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"pending"`) {
		t.Errorf("pending: %d %s", w.Code, w.Body)
	}
	g.answer(a.ID, false, "no")
	<-done
	if w := g.do("GET", "/rpc/status/"+a.ID, ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"exitCode":10`) {
		t.Errorf("denied: %d %s", w.Code, w.Body)
	}
	other := testBox("b00000002")
	if _, err := g.store.RegisterBox(t.Context(), other, store.HashToken(strings.Repeat("o", 64))); err != nil {
		t.Fatal(err)
	}
	g.box, g.token = other, strings.Repeat("o", 64)
	for _, id := range []string{a.ID, "a000000000000"} {
		if w := g.do("GET", "/rpc/status/"+id, ""); w.Code != 404 {
			t.Errorf("%s for another box: %d", id, w.Code)
		}
	}
}

func TestABoxFillsNoMoreThanItsShareOfTheAudit(t *testing.T) {
	g := newRig(t)
	filler, err := json.Marshal(strings.Repeat("x", store.MaxDetailBytes-1000))
	if err != nil {
		t.Fatal(err)
	}
	for range maxAudit/len(filler) + 1 {
		if _, err := g.store.AppendAudit(t.Context(), store.Entry{BoxID: g.box.ID, Actor: "policy", Action: "fill", Detail: filler}); err != nil {
			t.Fatal(err)
		}
	}
	bytes := func() int64 {
		n, err := g.store.AuditBytes(t.Context(), g.box.ID)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := bytes()
	const spent = "used up its share of the audit log"
	w := g.do("GET", "/git/"+repoKey+"/info/refs?service=git-upload-pack", "")
	if !strings.Contains(w.Body.String(), spent) || g.gate.fetches != 0 {
		t.Errorf("fetch: %d %q, the remote was asked %d times", w.Code, w.Body, g.gate.fetches)
	}
	if env, _, err := g.push(t.Context(), g.order(toMain), silent); err != nil || !strings.Contains(env.Stderr, spent) {
		t.Errorf("push: %+v, %v", env, err)
	}
	if after := bytes(); after != before {
		t.Errorf("the box added %d bytes", after-before)
	}
	// What the user does goes on.
	if err := g.refresh(t.Context(), g.box, g.box.Repos[0], g.gate, "operator uid=0 pid=1"); err != nil || g.gate.fetches != 1 {
		t.Errorf("the user's fetch: %v", err)
	}
}

func TestOpenRequestsOfABoxAreBounded(t *testing.T) {
	s := &slots{}
	for range maxRequests {
		if !s.take("b1") {
			t.Fatal("refused within the bound")
		}
	}
	if s.take("b1") || !s.take("b2") {
		t.Error("the bound does not hold, or holds for another box")
	}
	s.give("b1")
	if !s.take("b1") {
		t.Error("a place that became free is not given again")
	}
}

func TestLimitedListenerHoldsItsBound(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Limited(inner, 1)
	dialed := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dialed()
	dialed()
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() { _, err := l.Accept(); second <- err }()
	select {
	case <-second:
		t.Fatal("accepted over the bound")
	default:
	}
	first.Close()
	if err := <-second; err != nil {
		t.Error(err)
	}
	go func() { _, err := l.Accept(); second <- err }()
	l.Close()
	if err := <-second; err == nil {
		t.Error("accepted after Close")
	}
}
