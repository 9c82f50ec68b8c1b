package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the pack format's checksum
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/handin"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/setup"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
)

func TestOperatorNeedsAPeerAndJSON(t *testing.T) {
	g := newRig(t)
	w := httptest.NewRecorder()
	g.OperatorHandler().ServeHTTP(w, httptest.NewRequest("GET", "/admin/registry", nil))
	if w.Code != 403 {
		t.Errorf("without a peer: %d", w.Code)
	}
	for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json-patch"} {
		r := httptest.NewRequest("POST", "/admin/shutdown", nil)
		r.Header.Set("Content-Type", contentType)
		r = r.WithContext(context.WithValue(r.Context(), peerKey{}, Peer{}))
		w := httptest.NewRecorder()
		g.OperatorHandler().ServeHTTP(w, r)
		if w.Code != 415 {
			t.Errorf("content type %q: %d", contentType, w.Code)
		}
	}
}

func TestRegistrationIsCheckedAndHidesTheToken(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Home = shortHome(t) })
	body := func(change func(*wire.RegisterBox)) string {
		b := wire.RegisterBox{Box: testBox("b00000009"), Token: strings.Repeat("n", 64)}
		change(&b)
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for name, change := range map[string]func(*wire.RegisterBox){
		"short token":  func(b *wire.RegisterBox) { b.Token = "x" },
		"bad id":       func(b *wire.RegisterBox) { b.Box.ID = "../x" },
		"no name":      func(b *wire.RegisterBox) { b.Box.Name = "" },
		"bad key":      func(b *wire.RegisterBox) { b.Box.Repos[0].Key = "x" },
		"no branch":    func(b *wire.RegisterBox) { b.Box.Repos[0].Branch = "" },
		"two of a key": func(b *wire.RegisterBox) { b.Box.Repos = append(b.Box.Repos, b.Box.Repos[0]) },
		"odd format":   func(b *wire.RegisterBox) { b.Box.Repos[0].ObjectFormat = "md5" },
		"bad branch":   func(b *wire.RegisterBox) { b.Box.Repos[0].Branch = "--exec" },
	} {
		if w := g.operate("POST", "/admin/register-box", body(change)); w.Code != 400 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w := g.operate("POST", "/admin/register-box", body(func(b *wire.RegisterBox) { b.Token = g.token })); w.Code != 409 {
		t.Errorf("the token of another box: %d", w.Code)
	}
	if w := g.operate("POST", "/admin/register-box", body(func(*wire.RegisterBox) {})); w.Code != 204 {
		t.Fatalf("a good one: %d %s", w.Code, w.Body)
	}
	w := g.operate("GET", "/admin/registry", "")
	if !strings.Contains(w.Body.String(), "b00000009") || strings.Contains(w.Body.String(), strings.Repeat("n", 64)) {
		t.Errorf("the registry is %s", w.Body)
	}
	if st, err := os.Stat(g.cfg.Home.RelaySocket("b00000009")); err != nil || st.Mode().Perm() != 0o666 {
		t.Errorf("the channel is %v, %v", st, err)
	}
	resp, err := dial(g.cfg.Home.RelaySocket("b00000009")).Get("http://box/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); string(text) != `{"ok":true}`+"\n" {
		t.Errorf("a box sees of the relay's health: %s", text)
	}
	if w := g.operate("POST", "/admin/forget-box", `{"boxId":"b00000009"}`); w.Code != 204 {
		t.Errorf("forget: %d", w.Code)
	}
	if _, err := os.Stat(g.cfg.Home.RelaySocket("b00000009")); !os.IsNotExist(err) {
		t.Errorf("the channel of a forgotten box: %v", err)
	}
}

func TestAnswersAreExact(t *testing.T) {
	g := newRig(t)
	done := make(chan struct{})
	go func() { defer close(done); _, _, _ = g.push(t.Context(), g.order(toMain), silent) }()
	a := g.pending()
	for _, tc := range []struct {
		body string
		code int
	}{
		{`{"id":"a000000000000","answer":"y"}`, 404},
		{`{"id":"` + a.ID + `","answer":"maybe"}`, 400},
		{`{"id":"` + a.ID + `","answer":"y","digest":"other"}`, 409},
		{`{"id":"` + a.ID + `","answer":"n","digest":"` + a.Digest + `","note":"not now"}`, 204},
		{`{"id":"` + a.ID + `","answer":"y"}`, 409},
	} {
		if w := g.operate("POST", "/admin/prompts/answer", tc.body); w.Code != tc.code {
			t.Errorf("%s: %d %s; want %d", tc.body, w.Code, w.Body, tc.code)
		}
	}
	<-done
	if len(g.gate.pushed()) > 0 {
		t.Error("it ran")
	}
	var list wire.Prompts
	w := g.operate("GET", "/admin/prompts?all=1&boxId=b00000001", "")
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Prompts) != 1 || list.Prompts[0].Note != "not now" {
		t.Errorf("the list is %s, %v", w.Body, err)
	}
	if w := g.operate("GET", "/admin/prompts", ""); w.Body.String() != `{"prompts":[]}`+"\n" {
		t.Errorf("what waits is %s", w.Body)
	}
}

func TestPromptStreamTellsOfQuestionsAndTheirEnd(t *testing.T) {
	g := newRig(t)
	mux := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.OperatorHandler().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, Peer{})))
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/admin/prompts/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	done := make(chan struct{})
	go func() { defer close(done); _, _, _ = g.push(t.Context(), g.order(toMain), silent) }()
	lines := bufio.NewScanner(resp.Body)
	var seen []string
	for len(seen) < 2 && lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			if seen = append(seen, name); name == "prompt-ask" {
				g.answer(g.pending().ID, false, "")
			}
		}
	}
	<-done
	if got := strings.Join(seen, " "); got != "prompt-ask prompt-resolved" {
		t.Errorf("the stream told %q", got)
	}
}

func TestFollowedEventsComeInOrder(t *testing.T) {
	g := newRig(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.OperatorHandler().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, Peer{})))
	}))
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/admin/events?box=b00000001&follow=1&since=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	g.do("POST", "/events", `{"type":"e1"}`)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	var got []string
	for next := 2; next <= 4; next++ {
		g.do("POST", "/events", fmt.Sprintf(`{"type":"e%d"}`, next))
		for lines.Scan() {
			var e wire.Event
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &e) == nil && e.Type != "" {
				got = append(got, e.Type)
				break
			}
		}
	}
	if strings.Join(got, " ") != "e2 e3 e4" {
		t.Errorf("the stream told %q", got)
	}
}

func TestUserPushesWhatHasLanded(t *testing.T) {
	g := newRig(t)
	w := g.operate("POST", "/admin/git/push", `{"boxId":"b00000001"}`)
	var env wire.Envelope
	if err := json.Unmarshal(w.Body.Bytes(), &env); err != nil || w.Code != 200 || env.ExitCode != 0 {
		t.Fatalf("answers %d %s, %v", w.Code, w.Body, err)
	}
	want := policy.RefUpdate{Ref: "refs/heads/agentbox/one", Old: zero, New: oidB}
	if got := g.gate.pushed(); len(got) != 1 || got[0].Updates[0] != want {
		t.Errorf("pushed %+v; want %+v", got, want)
	}
	if g.gate.fetches != 1 {
		t.Error("it did not look at the remote first")
	}
	g.gate.refs = append(g.gate.refs, relayRef("refs/agentbox/landing/main", oidC))
	g.gate.facts.FastForward = false
	w = g.operate("POST", "/admin/git/push", `{"boxId":"b00000001","branch":"main"}`)
	if err := json.Unmarshal(w.Body.Bytes(), &env); err != nil || env.ExitCode != wire.ExitFailed || !strings.Contains(env.Stderr, "not an ancestor") {
		t.Errorf("a rewrite without force: %s", w.Body)
	}
	w = g.operate("POST", "/admin/git/push", `{"boxId":"b00000001","branch":"main","force":true}`)
	if err := json.Unmarshal(w.Body.Bytes(), &env); err != nil || env.ExitCode != 0 {
		t.Errorf("a rewrite with force: %s", w.Body)
	}
	if !strings.HasPrefix(g.actions()[len(g.actions())-2], "operator uid=1 pid=2") {
		t.Errorf("the audit log is %q", g.actions())
	}
	if w := g.operate("POST", "/admin/git/push", `{"boxId":"b0000000f"}`); w.Code != 404 {
		t.Errorf("an unknown box: %d", w.Code)
	}
}

func TestHandinLandsUnderTheBoxsRules(t *testing.T) {
	g := newRig(t)
	var body bytes.Buffer
	writeHandin(t, &body, "agentbox/one", oidC)
	r := httptest.NewRequest("POST", "/admin/land?box=b00000001", &body)
	r = r.WithContext(context.WithValue(t.Context(), peerKey{}, Peer{}))
	r.Header.Set("Content-Type", handinType)
	w := httptest.NewRecorder()
	g.OperatorHandler().ServeHTTP(w, r)
	var out wire.Landings
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 200 || len(out.Landings) != 1 || out.Landings[0].Envelope.ExitCode != 0 {
		t.Fatalf("answers %d %s, %v", w.Code, w.Body, err)
	}
	if len(g.gate.lands) != 1 || g.gate.lands[0] != oidC {
		t.Errorf("landed %v", g.gate.lands)
	}
	body.Reset()
	writeHandin(t, &body, "main", oidC)
	r = httptest.NewRequest("POST", "/admin/land?box=b00000001", &body)
	r = r.WithContext(context.WithValue(t.Context(), peerKey{}, Peer{}))
	r.Header.Set("Content-Type", handinType)
	w = httptest.NewRecorder()
	g.OperatorHandler().ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Landings[0].Envelope.ExitCode != wire.ExitRefused || len(g.gate.lands) != 1 {
		t.Errorf("main: %d %s, landed %v", w.Code, w.Body, g.gate.lands)
	}
}

func relayRef(name string, oid core.ObjectID) relay.Ref { return relay.Ref{Name: name, OID: oid} }

// writeHandin writes a hand-in of one tip with an empty pack.
func writeHandin(t *testing.T, w io.Writer, branch core.BranchName, tip core.ObjectID) {
	t.Helper()
	if err := handin.WriteHeader(w, handin.Header{Tips: []handin.Tip{{RepoKey: repoKey, Branch: branch, OID: tip}}}); err != nil {
		t.Fatal(err)
	}
	head := []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	sum := sha1.Sum(head)
	err := setup.WriteSection(w, func(w io.Writer) error {
		_, err := w.Write(append(head, sum[:]...))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
