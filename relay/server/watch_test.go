package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// sse is one message of a stream.
type sse struct{ id, name, data string }

// watch reads the prompts' stream in the background until stop.
func (g *rig) watch(query, last string) (next func() sse, stop func()) {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	conn := g.serve(g.operatorSide())()
	go func() {
		<-ctx.Done()
		_ = conn.Close()
	}()
	_, err := fmt.Fprintf(conn, "GET /admin/prompts/stream%s HTTP/1.1\r\nHost: relay\r\nLast-Event-ID: %s\r\n\r\n", query, last)
	if err != nil {
		g.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		g.t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	return func() (m sse) {
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				m.id = value
			case "event":
				m.name = value
			case "data":
				if m.data = value; m.name != "ping" {
					return m
				}
			}
		}
		return m
	}, cancel
}

// question opens a question about a push of a branch, for nobody who waits.
func (g *rig) question1(name string) store.Approval {
	g.t.Helper()
	a, _, err := g.store.OpenApproval(g.t.Context(), store.Ask{
		BoxID: g.box.ID, BoxName: g.box.Name, Method: methodPush, Digest: name, Message: name, Request: json.RawMessage(`{}`), TTL: time.Hour,
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return a
}

// TestTheStreamGoesOnWhereItBroke: what a reader missed it is told, what it knew
// it is not told again.
func TestTheStreamGoesOnWhereItBroke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		kept, gone := g.question1("kept"), g.question1("gone")
		next, stop := g.watch("?boxId="+g.box.ID, "")
		var last sse
		for range 2 {
			last = next()
		}
		stop()
		g.answer(gone.ID, false, "")
		missed := g.question1("missed")
		next, stop = g.watch("", last.id)
		defer stop()
		if m := next(); m.name != "prompt-ask" || !strings.Contains(m.data, missed.ID) {
			t.Errorf("first %+v; want the missed one alone", m)
		}
		if m := next(); m.name != "prompt-resolved" || !strings.Contains(m.data, gone.ID) || strings.Contains(m.id, gone.ID) || !strings.Contains(m.id, kept.ID) {
			t.Errorf("then %+v; want %s resolved", m, gone.ID)
		}
	})
}

// TestNoticesStandForTheirTime: one of a kind, until they are cleared, replaced
// or over.
func TestNoticesStandForTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		next, stop := g.watch("?boxId="+g.box.ID, "made-up,,<>")
		defer stop()
		set := func(body string) (id wire.NoticeID) {
			t.Helper()
			w := g.operate("POST", "/admin/notices/set", body)
			if err := json.Unmarshal(w.Body.Bytes(), &id); err != nil || w.Code != 200 {
				t.Fatalf("%s: %d %s", body, w.Code, w.Body)
			}
			return id
		}
		expect := func(name, id string) {
			t.Helper()
			if m := next(); m.name != name || !strings.Contains(m.data, id) {
				t.Errorf("got %+v; want %s of %s", m, name, id)
			}
		}
		first := set(`{"boxId":"b00000001","kind":"checkpoint","message":"one"}`)
		expect("notice-set", first.ID)
		second := set(`{"boxId":"b00000001","kind":"checkpoint","message":"two","ttlMs":1000}`)
		expect("notice-set", second.ID)
		expect("notice-clear", first.ID)
		start := time.Now()
		expect("notice-clear", second.ID)
		if time.Since(start) != time.Second {
			t.Errorf("it stood %v", time.Since(start))
		}
		third := set(`{"boxId":"b00000001","kind":"other","message":"three"}`)
		expect("notice-set", third.ID)
		for _, id := range []string{"nothere", third.ID, third.ID} {
			if w := g.operate("POST", "/admin/notices/clear", fmt.Sprintf(`{"boxId":"b00000001","id":%q}`, id)); w.Code != 204 {
				t.Errorf("clear %s: %d", id, w.Code)
			}
		}
		expect("notice-clear", third.ID)
		for i := range maxNotices {
			set(fmt.Sprintf(`{"boxId":"b00000001","kind":"k%d","message":"m"}`, i))
		}
		for body, code := range map[string]int{
			`{"boxId":"b00000001","kind":"more","message":"m"}`:                                     409,
			`{"boxId":"b00000009","kind":"k","message":"m"}`:                                        404,
			`{"boxId":"../x","kind":"k","message":"m"}`:                                             400,
			`{"boxId":"b00000001","kind":"\u001b","message":"m"}`:                                   400,
			`{"boxId":"b00000001","kind":"k","message":""}`:                                         400,
			`{"boxId":"b00000001","kind":"k","message":"m","ttlMs":-1}`:                             400,
			`{"boxId":"b00000001","kind":"k","message":"` + strings.Repeat("m", maxNotice+1) + `"}`: 400,
		} {
			if w := g.operate("POST", "/admin/notices/set", body); w.Code != code {
				t.Errorf("%.80s: %d; want %d", body, w.Code, code)
			}
		}
		g.operate("POST", "/admin/forget-box", `{"boxId":"b00000001"}`)
		if left := g.notices.current(""); len(left) != 0 {
			t.Errorf("a forgotten box has %v", left)
		}
	})
}

// TestAWaitForAStatusMissesNoChange, neither one before it begins nor one that is
// back to what was seen.
func TestAWaitForAStatusMissesNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		status := func(box string, wait int, seen string) *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", fmt.Sprintf("/admin/box-status?box=%s&wait=%d", box, wait), nil).WithContext(t.Context())
			r.Header.Set("If-None-Match", seen)
			w := httptest.NewRecorder()
			g.operatorSide().ServeHTTP(w, r)
			return w
		}
		set := func(text string) {
			t.Helper()
			if err := g.store.SetStatus(t.Context(), g.box.ID, json.RawMessage(text)); err != nil {
				t.Fatal(err)
			}
		}
		waiting := func(seen string) <-chan *httptest.ResponseRecorder {
			out := make(chan *httptest.ResponseRecorder, 1)
			go func() { out <- status(g.box.ID, 20, seen) }()
			synctest.Wait()
			return out
		}
		start := time.Now()
		if w := status(g.box.ID, 0, ""); w.Code != 404 {
			t.Errorf("none yet: %d", w.Code)
		}
		if w := status("b00000009", 20, ""); w.Code != 404 || time.Since(start) != 0 {
			t.Errorf("an unknown box: %d after %v", w.Code, time.Since(start))
		}
		first := waiting("")
		set(`{"agent":"working"}`)
		w := <-first
		if w.Code != 200 || w.Body.String() != `{"agent":"working"}`+"\n" {
			t.Errorf("the first: %d %s", w.Code, w.Body)
		}
		working := w.Header().Get("ETag")
		set(`{"agent":"idle"}`) // before anybody waits
		if w := status(g.box.ID, 20, working); w.Code != 200 || !strings.Contains(w.Body.String(), "idle") || time.Since(start) != 0 {
			t.Errorf("a change before the wait: %d %s", w.Code, w.Body)
		}
		set(`{"agent":"working"}`)
		again := waiting(working)
		select {
		case w := <-again:
			t.Errorf("an old change ends the wait: %d %s", w.Code, w.Body)
		default:
		}
		if w := <-again; w.Code != 304 || time.Since(start) != 20*time.Second {
			t.Errorf("without a change: %d after %v", w.Code, time.Since(start))
		}
		gone := waiting(working)
		if _, err := g.store.ForgetBox(t.Context(), g.box.ID); err != nil {
			t.Fatal(err)
		}
		if w := <-gone; w.Code != 404 {
			t.Errorf("of a box that is gone: %d", w.Code)
		}
	})
}
