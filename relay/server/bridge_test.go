package server

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/bridge"
	"github.com/madarco/agentbox/relay/store"
)

// bridgedRig is a relay and a box behind a bridge.
func bridgedRig(t *testing.T) (g *rig, box *httptest.Server, link wire.BridgeLink) {
	t.Helper()
	g = newRig(t)
	link.BridgeToken = strings.Repeat("h", 64)
	half, err := bridge.NewBox(bridge.BoxConfig{BoxID: g.box.ID, BoxToken: g.token, BridgeToken: link.BridgeToken})
	if err != nil {
		t.Fatal(err)
	}
	box = httptest.NewServer(half.Handler())
	t.Cleanup(box.Close)
	t.Cleanup(g.bridges.Close) // first: the box's end waits for the poll that is held
	link.PreviewURL = box.URL
	if err := g.bridges.Register(g.box.ID, link); err != nil {
		t.Fatal(err)
	}
	return g, box, link
}

// asBox posts as a tool of the box.
func (g *rig) asBox(base, path, body string) (int, string) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+g.token)
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestABoxBehindABridgeIsAnsweredByTheSameBrain(t *testing.T) {
	g, box, _ := bridgedRig(t)
	g.gate.facts.FastForward = false
	type answer struct {
		code int
		text string
	}
	got := make(chan answer, 1)
	go func() {
		code, text := g.asBox(box.URL, "/rpc", `{"requestId":"one","method":"git.push","params":{"branch":"main","path":"/workspace"}}`)
		got <- answer{code, text}
	}()
	select {
	case a := <-got:
		if a.code != http.StatusInternalServerError || !strings.Contains(a.text, `"exitCode"`) {
			t.Errorf("got %d %s", a.code, a.text)
		}
	case <-t.Context().Done():
	}
	if code, text := g.asBox(box.URL, "/rpc", `{"method":"no.such"}`); code != http.StatusInternalServerError || !strings.Contains(text, "status 501") {
		t.Errorf("got %d %s", code, text)
	}
}

func TestALoginOverABridgeEntersNoLog(t *testing.T) {
	g, box, _ := bridgedRig(t)
	changed, stop := g.store.Watch(store.EventsTopic(g.box.ID))
	defer stop()
	g.asBox(box.URL, "/events", `{"type":"credentials-updated","payload":{"agent":"codex","contentBase64":"c2VjcmV0"}}`)
	g.asBox(box.URL, "/events", `{"type":"box-status","payload":{"schema":1,"boxId":"`+g.box.ID+`"}}`)
	g.asBox(box.URL, "/events", `{"type":"relay.approved"}`) // not a box's to say: refused by the host
	g.asBox(box.URL, "/events", `{"type":"notify"}`)
	<-changed
	events, err := g.store.Events(t.Context(), g.box.ID, 0, 10)
	if err != nil || len(events) != 1 || events[0].Type != "notify" {
		t.Errorf("kept %+v, %v", events, err)
	}
}

func TestALinkOutlivesTheRelayAndGoesWithTheBox(t *testing.T) {
	g, _, link := bridgedRig(t)
	dir := g.cfg.Home.Bridges()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		files = append(files, path)
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("kept %v, %v", files, err)
	}
	regs, err := g.store.Boxes(t.Context())
	raw, jsonErr := json.Marshal(regs)
	if err != nil || jsonErr != nil || bytes.Contains(raw, []byte(link.BridgeToken)) {
		t.Errorf("the store has %s, %v, %v", raw, err, jsonErr)
	}
	if err := g.bridges.Forget(g.box.ID); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := g.OpenBridge(g.box.ID); err != nil {
		t.Errorf("a box without a bridge: %v", err)
	}
}
