package bridge

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/wire"
)

func TestWhoMayAskForWhat(t *testing.T) {
	const inside, outside = "127.0.0.1:9", "203.0.113.5:9"
	b := newBox(t)
	for _, row := range []struct {
		from, token, method, path, body string
		want                            int
	}{
		{outside, "", "GET", "/healthz", "", 200},
		{outside, hostToken, "GET", "/bridge/healthz", "", 200},
		{outside, hostToken, "GET", "/bridge/poll", "", 200},
		{outside, hostToken, "GET", "/bridge/poll?since=x", "", 400},
		{outside, hostToken, "GET", "/bridge/poll?since=-1", "", 400},
		{outside, hostToken, "POST", "/bridge/action-result", `{"id":"none","exitCode":0,"stdout":"","stderr":""}`, 404},
		{outside, hostToken, "POST", "/bridge/action-result", `{"exitCode":0}`, 400},
		{outside, hostToken, "POST", "/bridge/action-result", `{"id":`, 400},
		{outside, hostToken, "POST", "/bridge/heartbeat", `{"ids":["none"]}`, 200},
		{outside, hostToken, "GET", "/bridge/other", "", 404},
		// The box's token is not the host's, nor the other way round.
		{inside, ownToken, "GET", "/bridge/poll", "", 401},
		{inside, ownToken, "POST", "/bridge/action-result", `{"id":"none"}`, 401},
		{inside, ownToken, "POST", "/bridge/heartbeat", `{"ids":[]}`, 401},
		{inside, "", "GET", "/bridge/poll", "", 401},
		{inside, hostToken, "POST", "/rpc", `{"method":"m"}`, 401},
		{inside, "", "POST", "/events", `{"type":"t"}`, 401},
		// Nobody but the box itself has the box's routes.
		{outside, ownToken, "POST", "/rpc", `{"method":"m"}`, 404},
		{outside, ownToken, "POST", "/events", `{"type":"t"}`, 404},
		// There are no operator's routes.
		{inside, ownToken, "GET", "/admin/registry", "", 404},
		{outside, hostToken, "POST", "/admin/prompts/answer", `{}`, 404},
		{inside, ownToken, "POST", "/rpc", `{"params":{}}`, 400},
		{inside, ownToken, "POST", "/rpc", `{"method":"m","METHOD":"n"}`, 400},
		{inside, ownToken, "GET", "/rpc/status/none", "", 404},
		{inside, ownToken, "POST", "/events", `{"type":"t"}`, 202},
		{inside, ownToken, "POST", "/events", `{"payload":{}}`, 400},
		{inside, ownToken, "POST", "/events", `{"type":"box-status","payload":{"schema":1,"boxId":"b99999999"}}`, 400},
		{inside, ownToken, "POST", "/events", `{"type":"box-status","payload":{"schema":1,"boxId":"b00000001"}}`, 202},
		{inside, ownToken, "POST", "/events", `{"type":"credentials-updated","payload":{"agent":"../x"}}`, 400},
		{inside, ownToken, "POST", "/events", `{"type":"t","payload":"` + strings.Repeat("x", 20<<10) + `"}`, 413},
		{inside, ownToken, "POST", "/events", strings.Repeat(" ", maxBody+1), 413},
		{inside, ownToken, "GET", "/git/k/info/refs", "", 501},
		{inside, ownToken, "POST", "/rpc", `{"method":"browser.open","params":{"url":"https://example.com/"}}`, 200},
		{inside, ownToken, "POST", "/rpc", `{"method":"browser.open","params":{"url":"file:///etc/passwd"}}`, 400},
	} {
		if w := call(t.Context(), b.Handler(), row.from, row.token, row.method, row.path, row.body); w.Code != row.want {
			t.Errorf("%s %s from %s: %d %s; want %d", row.method, row.path, row.from, w.Code, w.Body, row.want)
		}
	}
	if n := b.queue.len(); n != 1 {
		t.Errorf("%d requests are parked; want the link alone", n)
	}
}

func TestTokensThatGuardNothingAreRefused(t *testing.T) {
	for name, cfg := range map[string]BoxConfig{
		"no bridge token": {boxID, ownToken, ""},
		"no box token":    {boxID, "", hostToken},
		"short":           {boxID, ownToken, "short"},
		"the same":        {boxID, ownToken, ownToken},
		"no id":           {"", ownToken, hostToken},
	} {
		if _, err := NewBox(cfg); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestALinkIsTLSOrThisMachine(t *testing.T) {
	for address, ok := range map[string]bool{
		"https://8788-x.example.app": true, "http://127.0.0.1:4000": true, "http://[::1]:4000": true,
		"http://8788-x.example.app": false, "http://10.0.0.1:1": false, "http://localhost:1": false,
		"https://user@x.example": false, "ftp://x": false, "": false, "https://x.example/?a=b": false,
	} {
		if err := CheckLink(wire.BridgeLink{PreviewURL: address, BridgeToken: hostToken}); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
	if CheckLink(wire.BridgeLink{PreviewURL: "https://x.example"}) == nil {
		t.Error("a link without a token was taken")
	}
}

func TestAnotherInstanceIsToldAndHandedNothing(t *testing.T) {
	b := newBox(t)
	if err := b.queue.offer(boxID, wire.Request{Method: "m"}); err != nil {
		t.Fatal(err)
	}
	var p Poll
	w := call(t.Context(), b.Handler(), "203.0.113.5:9", hostToken, http.MethodGet, "/bridge/poll?since=9&wait=20&instance=old", "")
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Instance != b.instance || len(p.Actions) != 0 {
		t.Errorf("got %s", w.Body)
	}
	w = call(t.Context(), b.Handler(), "203.0.113.5:9", hostToken, http.MethodGet, "/bridge/poll?since=0&wait=20&instance="+b.instance, "")
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || len(p.Actions) != 1 {
		t.Errorf("got %s", w.Body)
	}
}
