package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/store"
)

// labelled is a host action whose every label is another request.
type labelled struct{}

func (labelled) Prepare(_ context.Context, c relay.Call) (relay.Action, error) {
	var p struct {
		Label string `json:"label"`
	}
	if err := wire.Decode(c.Body, &p); err != nil {
		return relay.Action{}, &relay.Refusal{Code: wire.ExitBadRequest, Text: err.Error()}
	}
	return relay.Action{
		Kind: policy.PRClose, Request: p, Message: "close " + core.Untrusted(p.Label).Quote(),
	}, nil
}

func (labelled) Do(context.Context, relay.Call, func(int) error) store.Outcome {
	return succeeded("closed")
}

func (l labelled) Resume(ctx context.Context, c relay.Call) store.Outcome { return l.Do(ctx, c, nil) }

func withLabelled(c *Config) {
	c.Methods = map[string]relay.Method{"test.close": labelled{}}
}

// close asks for the action, without blocking if async.
func (g *rig) close(token, box, label string, async bool) *httptest.ResponseRecorder {
	body := fmt.Sprintf(`{"method":"test.close","params":{"label":%q}}`, label)
	r := httptest.NewRequest(http.MethodPost, "/rpc", strings.NewReader(body)).WithContext(g.t.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	if async {
		r.Header.Set("Prefer", "respond-async")
	}
	w := httptest.NewRecorder()
	g.BoxHandler(box).ServeHTTP(w, r)
	return w
}

// TestTenThousandQuestionsOfABox are refused at the limit, and another box asks
// as ever.
func TestTenThousandQuestionsOfABox(t *testing.T) {
	g := newRig(t, withLabelled)
	other := testBox("b00000002")
	token := strings.Repeat("o", 64)
	if _, err := g.store.RegisterBox(t.Context(), other, store.HashToken(token)); err != nil {
		t.Fatal(err)
	}
	parkedCount, refused := 0, 0
	for i := range 10_000 {
		w := g.close(g.token, g.box.ID, fmt.Sprint(i), true)
		var env wire.Envelope
		switch {
		case w.Code == http.StatusAccepted:
			parkedCount++
		case w.Code == http.StatusInternalServerError && json.Unmarshal(w.Body.Bytes(), &env) == nil && env.ExitCode == wire.ExitDenied:
			refused++
		default:
			t.Fatalf("question %d: %d %s", i, w.Code, w.Body)
		}
	}
	if parkedCount != maxPending || refused != 10_000-maxPending {
		t.Errorf("%d wait and %d were refused", parkedCount, refused)
	}
	if w := g.close(g.token, g.box.ID, "0", true); w.Code != http.StatusAccepted {
		t.Errorf("joining one that waits: %d %s", w.Code, w.Body)
	}
	if w := g.close(token, other.ID, "x", true); w.Code != http.StatusAccepted {
		t.Errorf("the other box: %d %s", w.Code, w.Body)
	}
	if w := g.operate("GET", "/admin/prompts?boxId="+other.ID, ""); !strings.Contains(w.Body.String(), other.ID) {
		t.Errorf("its question is not listed: %s", w.Body)
	}
	g.say(g.questions()[0], "n", "")
	if w := g.close(g.token, g.box.ID, "one more", true); w.Code != http.StatusAccepted {
		t.Errorf("with room again: %d %s", w.Code, w.Body)
	}
}

// TestANoReachesTheBoxWithItsReason, whether it waits or looks again.
func TestANoReachesTheBoxWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, withLabelled)
		blocked := make(chan *httptest.ResponseRecorder, 1)
		go func() { blocked <- g.close(g.token, g.box.ID, "x", false) }()
		synctest.Wait()
		var p wire.Parked
		if w := g.close(g.token, g.box.ID, "x", true); json.Unmarshal(w.Body.Bytes(), &p) != nil || p.PromptID == "" {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		open := g.questions()[0]
		if open.Action == nil || open.Action.Class != policy.GitHub {
			t.Errorf("the question's class is %+v", open.Action)
		}
		g.say(open, "n", "wait for the review")
		w := <-blocked
		var env wire.Envelope
		if err := json.Unmarshal(w.Body.Bytes(), &env); err != nil || env.ExitCode != wire.ExitDenied || !strings.Contains(env.Stderr, "wait for the review") {
			t.Errorf("who waits reads %s", w.Body)
		}
		var look struct {
			Status string
			Result wire.Envelope
		}
		w = g.do("GET", "/rpc/status/"+p.PromptID, "")
		if err := json.Unmarshal(w.Body.Bytes(), &look); err != nil || look.Status != "done" || look.Result != env {
			t.Errorf("who looks reads %s", w.Body)
		}
	})
}

// TestAnExpiredQuestionStaysListed until it is asked again.
func TestAnExpiredQuestionStaysListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, withLabelled)
		list := func() (states []wire.ApprovalState) {
			var p wire.Prompts
			if err := json.Unmarshal(g.operate("GET", "/admin/prompts", "").Body.Bytes(), &p); err != nil {
				t.Fatal(err)
			}
			for _, a := range p.Prompts {
				states = append(states, a.State)
			}
			return states
		}
		w := g.close(g.token, g.box.ID, "x", false) // waits for the whole of the 24 hours
		var env wire.Envelope
		if err := json.Unmarshal(w.Body.Bytes(), &env); err != nil || env.ExitCode != wire.ExitTimeout || !strings.Contains(env.Stderr, "ask again") {
			t.Errorf("the box reads %s", w.Body)
		}
		if got := list(); len(got) != 1 || got[0] != wire.Expired {
			t.Errorf("listed %v", got)
		}
		g.close(g.token, g.box.ID, "x", true)
		if got := list(); len(got) != 1 || got[0] != wire.Pending {
			t.Errorf("asked again: %v", got)
		}
	})
}

// TestForgettingABoxWaitsForNothing: its questions end at once, though work of it
// goes on.
func TestForgettingABoxWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, withLabelled)
		release := make(chan struct{})
		g.gate.onPush = func(_ context.Context, r relay.PushRequest) (relay.PushResult, error) {
			<-release
			return took(r), nil
		}
		working, asking := make(chan error, 1), make(chan *httptest.ResponseRecorder, 1)
		go func() {
			_, _, err := g.push(t.Context(), g.order(policy.RefUpdate{Ref: "refs/heads/agentbox/one", Old: zero, New: oidB}), silent)
			working <- err
		}()
		go func() { asking <- g.close(g.token, g.box.ID, "x", false) }()
		synctest.Wait()
		start := time.Now()
		if w := g.operate("POST", "/admin/forget-box", `{"boxId":"b00000001"}`); w.Code != 204 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if w := <-asking; !strings.Contains(w.Body.String(), "withdrawn") {
			t.Errorf("who asked reads %s", w.Body)
		}
		if time.Since(start) != 0 || len(g.questions()) != 0 {
			t.Errorf("it took %v and left %v", time.Since(start), g.questions())
		}
		close(release)
		<-working
	})
}

// TestTheUsersOwnActionIsNotAskedAbout, is written down as the user's, and needs
// a box and a method that there are.
func TestTheUsersOwnActionIsNotAskedAbout(t *testing.T) {
	g := newRig(t, withLabelled)
	for body, code := range map[string]int{
		`{"boxId":"b00000009","method":"test.close"}`:                           404,
		`{"boxId":"b00000001","method":"test.open"}`:                            501,
		`{"boxId":"b00000001","method":"git.push"}`:                             501,
		`{"boxId":"b00000001","method":"test.close","extra":1}`:                 400,
		`{"boxId":"b00000001","method":"test.close","params":{"label":"pr 1"}}`: 200,
	} {
		w := g.operate("POST", "/admin/act", body)
		if w.Code != code {
			t.Errorf("%s: %d %s; want %d", body, w.Code, w.Body, code)
		}
		var env wire.Envelope
		if code == 200 && (json.Unmarshal(w.Body.Bytes(), &env) != nil || env.ExitCode != wire.ExitOK) {
			t.Errorf("%s: %s", body, w.Body)
		}
	}
	if len(g.questions()) != 0 {
		t.Errorf("asked %v", g.questions())
	}
	if got := strings.Join(g.actions(), "\n"); !strings.Contains(got, "operator uid=1 pid=2 work.begin") {
		t.Errorf("the audit log is\n%s", got)
	}
}

// TestHealthNamesBoxesThatNeverAsk, so that nobody forgets which they are.
func TestHealthNamesBoxesThatNeverAsk(t *testing.T) {
	g := newRig(t)
	free := testBox("b00000002")
	free.Name, free.AutoApproveHostActions = "free", true
	if _, err := g.store.RegisterBox(t.Context(), free, store.HashToken(strings.Repeat("o", 64))); err != nil {
		t.Fatal(err)
	}
	var h wire.Health
	if err := json.Unmarshal(g.operate("GET", "/healthz", "").Body.Bytes(), &h); err != nil || len(h.Unasked) != 1 || h.Unasked[0] != "free" {
		t.Errorf("%+v, %v", h, err)
	}
}
