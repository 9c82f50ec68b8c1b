package server

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/redlist"
	"github.com/madarco/agentbox/core/wire"
)

// TestACallerThatPrefersNotToBlock is told of the question, follows it, and does
// the work after a yes, once.
func TestACallerThatPrefersNotToBlock(t *testing.T) {
	g := newRig(t)
	g.gate.facts.RedList = []redlist.Group{{Class: redlist.Workflow, What: "CI workflows"}}
	send := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/rpc", strings.NewReader(`{"requestId":"r1","method":"git.push","params":{"path":"/workspace"}}`)).WithContext(t.Context())
		r.Header.Set("Authorization", "Bearer "+g.token)
		r.Header.Set("Prefer", "wait=5, Respond-Async")
		w := httptest.NewRecorder()
		g.BoxHandler(g.box.ID).ServeHTTP(w, r)
		return w
	}
	var p wire.Parked
	w := send()
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 202 || p.Status != "pending" || p.Message == "" || p.Deadline.IsZero() {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if again := send(); again.Code != 202 || !strings.Contains(again.Body.String(), p.PromptID) || len(g.gate.pushed()) != 0 {
		t.Errorf("asked anew, or pushed unasked: %d %s", again.Code, again.Body)
	}
	status := make(chan string)
	go func() { status <- g.do("GET", "/rpc/status/"+p.PromptID+"?wait=20", "").Body.String() }()
	g.answer(p.PromptID, true, "")
	if got := <-status; !strings.Contains(got, `"approved"`) {
		t.Errorf("status %s", got)
	}
	for range 2 { // the second is the kept result
		if w := send(); w.Code != 200 || len(g.gate.pushed()) != 1 {
			t.Errorf("%d %s after %d pushes", w.Code, w.Body, len(g.gate.pushed()))
		}
	}
	if got := g.do("GET", "/rpc/status/"+p.PromptID, "").Body.String(); !strings.Contains(got, `"done"`) {
		t.Errorf("status %s", got)
	}
}
