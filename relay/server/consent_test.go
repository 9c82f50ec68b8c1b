package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/budget"
	"github.com/madarco/agentbox/relay/store"
)

// handIn hands a commit in as the box's daemon does, and returns the refusal.
func (g *rig) handIn(tip core.ObjectID) string {
	g.t.Helper()
	o := g.order(policy.RefUpdate{Ref: wire.LandingPrefix + "agentbox/one", Old: zero, New: tip})
	results, err := g.landAll(g.t.Context(), o)
	if err != nil {
		g.t.Fatal(err)
	}
	return results[0].Reason
}

func (g *rig) questions() []store.Approval {
	g.t.Helper()
	list, err := g.store.Approvals(g.t.Context(), g.box.ID, wire.Pending)
	if err != nil {
		g.t.Fatal(err)
	}
	return list
}

// say answers as the user's command does.
func (g *rig) say(a store.Approval, answer, note string) (int, wire.Answered) {
	g.t.Helper()
	body, err := json.Marshal(wire.Answer{ID: a.ID, Answer: answer, Digest: a.Digest, Note: note})
	if err != nil {
		g.t.Fatal(err)
	}
	w := g.operate(http.MethodPost, "/admin/prompts/answer", string(body))
	var out wire.Answered
	_ = json.Unmarshal(w.Body.Bytes(), &out) // empty where nothing was done
	return w.Code, out
}

func held(g *rig) {
	g.gate.landed = wire.Landing{Status: wire.LandedHeld, Old: oidA, Detail: "the commits hold a trap"}
	g.gate.facts.Findings = []policy.Finding{{Rule: "a trap", Path: "x"}}
}

func TestAHeldCommitIsAskedAboutAndLandsAsItWasShown(t *testing.T) {
	g := newRig(t)
	held(g)
	reason := g.handIn(oidB)
	open := g.questions()
	if len(open) != 1 {
		t.Fatalf("questions %v", open)
	}
	a := open[0]
	if !strings.Contains(reason, "agentbox agent approve "+a.ID) || !strings.HasPrefix(reason, wire.LandedHeld) {
		t.Errorf("the box reads %q", reason)
	}
	u := a.Land.Update
	if a.Land.Status != wire.LandedHeld || u.Ref != "refs/heads/agentbox/one" || u.Old != oidA || u.New != oidB || len(u.Facts.Findings) != 1 {
		t.Errorf("the question is about %+v", a.Land)
	}
	if again := g.handIn(oidB); len(g.questions()) != 1 || !strings.Contains(again, a.ID) {
		t.Errorf("asked again: %q, %v", again, g.questions())
	}
	other := a
	other.Digest = strings.Repeat("0", 64)
	if code, _ := g.say(other, "y", ""); code != http.StatusConflict || slices.Contains(g.gate.agreed, true) {
		t.Errorf("a yes to something else: %d", code)
	}
	code, out := g.say(a, "y", "")
	if code != http.StatusOK || out.Failed || !strings.HasPrefix(out.Result, "landed agentbox/one") {
		t.Errorf("%d, %+v", code, out)
	}
	if n := len(g.gate.lands); g.gate.lands[n-1] != oidB || !g.gate.agreed[n-1] {
		t.Errorf("landed %v, agreed %v", g.gate.lands, g.gate.agreed)
	}
	kept, err := g.store.Approval(t.Context(), a.ID)
	if err != nil || kept.State != wire.Done {
		t.Errorf("the approval is %s, %v", kept.State, err)
	}
	if actions := g.actions(); !slices.Contains(actions, "operator uid=1 pid=2 work.begin") {
		t.Errorf("audit %v", actions)
	}
}

func TestANoToALandingHolds(t *testing.T) {
	g := newRig(t)
	held(g)
	g.handIn(oidB)
	if code, _ := g.say(g.questions()[0], "n", "take the link out"); code != http.StatusNoContent {
		t.Fatalf("deny: %d", code)
	}
	if reason := g.handIn(oidB); !strings.Contains(reason, "denied by the user: take the link out") || len(g.questions()) != 0 {
		t.Errorf("the box reads %q, questions %v", reason, g.questions())
	}
	if slices.Contains(g.gate.agreed, true) {
		t.Error("it landed")
	}
}

func TestAQuestionStandsWhileTheBoxBuildsOnIt(t *testing.T) {
	g := newRig(t)
	held(g)
	g.handIn(oidB)
	first := g.questions()[0]
	reason := g.handIn(oidC)
	if open := g.questions(); len(open) != 1 || open[0].ID != first.ID || !strings.Contains(reason, "builds on") {
		t.Fatalf("%q, %v", reason, open)
	}
	g.gate.kept = []wire.Landing{{Branch: "agentbox/one", New: oidC, Status: wire.Landed}}
	g.gate.facts.Findings, g.gate.landed = nil, wire.Landing{}
	if code, out := g.say(first, "y", ""); code != http.StatusOK || out.Failed {
		t.Fatalf("%d, %+v", code, out)
	}
	if n := len(g.gate.lands); n < 2 || g.gate.lands[n-2] != oidB || g.gate.lands[n-1] != oidC || g.gate.agreed[n-1] {
		t.Errorf("landed %v, agreed %v", g.gate.lands, g.gate.agreed)
	}
}

func TestARewriteWithdrawsTheQuestion(t *testing.T) {
	g := newRig(t)
	held(g)
	g.handIn(oidB)
	first := g.questions()[0]
	g.gate.facts.FastForward = false
	g.handIn(oidC)
	open := g.questions()
	if len(open) != 1 || open[0].Land.Update.New != oidC {
		t.Fatalf("questions %v", open)
	}
	if a, err := g.store.Approval(t.Context(), first.ID); err != nil || a.State != wire.Cancelled {
		t.Errorf("the first is %s, %v", a.State, err)
	}
}

// TestALandingEndsTheQuestion: a yes to what the box has taken back must not
// bring it.
func TestALandingEndsTheQuestion(t *testing.T) {
	g := newRig(t)
	held(g)
	g.handIn(oidB)
	first := g.questions()[0]
	g.gate.landed, g.gate.facts.Findings = wire.Landing{}, nil
	if reason := g.handIn(oidC); reason != "" || len(g.questions()) != 0 {
		t.Fatalf("%q, %v", reason, g.questions())
	}
	if code, _ := g.say(first, "y", ""); code != http.StatusConflict || slices.Contains(g.gate.agreed, true) {
		t.Errorf("a yes to it: %d", code)
	}
}

func TestABranchThatTheUserMovedIsAskedAbout(t *testing.T) {
	g := newRig(t)
	g.gate.landed = wire.Landing{Status: wire.LandedDiverged, Old: oidC, Detail: "the user has moved the branch"}
	g.gate.facts.FastForward = false
	g.handIn(oidB)
	a := g.questions()[0]
	if a.Land.Status != wire.LandedDiverged || !strings.Contains(a.Message, "rewritten") {
		t.Errorf("%q, %+v", a.Message, a.Land)
	}
	var r landRequest
	if err := json.Unmarshal(a.Request, &r); err != nil || r != (landRequest{Repo: repoKey, Branch: "agentbox/one", Tip: oidB, Agreed: true, Old: oidC}) {
		t.Errorf("the yes is to %+v, %v", r, err)
	}
}

func TestAYesBeforeARestartIsCarriedOutAfterIt(t *testing.T) {
	g := newRig(t)
	held(g)
	g.handIn(oidB)
	a := g.questions()[0]
	g.answer(a.ID, true, "") // the relay ends before it does anything
	if err := g.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	for {
		changed, stop := g.store.Watch(store.ApprovalTopic(a.ID))
		now, err := g.store.Approval(t.Context(), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		if now.State == wire.Done {
			stop()
			break
		}
		<-changed
		stop()
	}
	if n := len(g.gate.lands); g.gate.lands[n-1] != oidB || !g.gate.agreed[n-1] {
		t.Errorf("landed %v, agreed %v", g.gate.lands, g.gate.agreed)
	}
}

// TestTheUserAsksForALanding: any branch, under any name, after it was shown.
func TestTheUserAsksForALanding(t *testing.T) {
	g := newRig(t)
	ask := `{"boxId":"` + g.box.ID + `","branch":"agentbox/one","as":"agentbox/one-2"}`
	w := g.operate(http.MethodPost, "/admin/land/ask", ask)
	var out wire.AskedLanding
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK || out.Approval == nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if u := out.Approval.Land.Update; u.Ref != "refs/heads/agentbox/one-2" || u.New != oidB {
		t.Errorf("the question is about %+v", u)
	}
	if len(g.gate.lands) != 0 {
		t.Error("it landed before the answer")
	}
	if w := g.operate(http.MethodPost, "/admin/land/ask", `{"boxId":"`+g.box.ID+`","branch":"unknown"}`); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "nothing of unknown") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	g.gate.kept = []wire.Landing{{Branch: "agentbox/one", New: oidC, Status: wire.LandedCheckedOut}}
	if w := g.operate(http.MethodGet, "/admin/landings?box="+g.box.ID, ""); !strings.Contains(w.Body.String(), `"status":"checked-out"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestABoxThatHasSpentItsBudgetAsksForAnother(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Budget.Bytes = 10 })
	land := func() error {
		o := g.order()
		return g.take(t.Context(), o, strings.NewReader(strings.Repeat("x", 12)), nil)
	}
	if err := land(); err != nil {
		t.Fatal(err)
	}
	err := land()
	open := g.questions()
	if err == nil || len(open) != 1 || open[0].Method != methodBudget || !strings.Contains(err.Error(), open[0].ID) {
		t.Fatalf("%v, questions %v", err, open)
	}
	if err := land(); err == nil || len(g.questions()) != 1 {
		t.Errorf("again: %v, questions %v", err, g.questions())
	}
	if code, out := g.say(open[0], "y", ""); code != http.StatusOK || out.Failed {
		t.Fatalf("%d, %+v", code, out)
	}
	if err := land(); err != nil {
		t.Errorf("after the yes: %v", err)
	}
	if err := land(); err == nil || len(g.questions()) != 1 {
		t.Errorf("the second budget: %v, questions %v", err, g.questions())
	}
	if actions := strings.Join(g.actions(), "\n"); !strings.Contains(actions, "work.begin") || !strings.Contains(actions, "approval.approved") {
		t.Errorf("audit:\n%s", actions)
	}
}

// TestTheReserveOfTheDiskIsTheUsers: nothing of a box is taken in, and whatever
// the user does to get out of it works.
func TestTheReserveOfTheDiskIsTheUsers(t *testing.T) {
	g := newRig(t)
	held(g)
	g.handIn(oidB)
	free := int64(5 << 30)
	g.disk.Free = func(string) (int64, error) { return free, nil }
	big := func() io.Reader { return io.LimitReader(zeros{}, 64<<20) }
	if err := g.take(t.Context(), g.order(), big(), nil); err != nil {
		t.Fatal(err)
	}
	free = g.disk.Reserve - 1
	if err := g.take(t.Context(), g.order(), big(), nil); !errors.Is(err, budget.ErrNoRoom) {
		t.Errorf("got %v", err)
	}
	// It gets full while a pack comes in.
	free = g.disk.Reserve + 40<<20
	g.disk.Free = func(string) (int64, error) { free -= 16 << 20; return free, nil }
	err := g.take(t.Context(), g.order(), big(), nil)
	if !errors.Is(err, budget.ErrNoRoom) || !strings.Contains(g.explain(g.box.ID, err), "disk is nearly full") {
		t.Errorf("got %v", err)
	}
	if code, _ := g.say(g.questions()[0], "n", ""); code != http.StatusNoContent {
		t.Errorf("deny: %d", code)
	}
	if w := g.operate(http.MethodPost, "/admin/forget-box", `{"boxId":"`+g.box.ID+`"}`); w.Code != http.StatusNoContent {
		t.Errorf("forget: %d", w.Code)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestABusyRepositoryIsAReasonThatPasses(t *testing.T) {
	g := newRig(t)
	g.gate.landErr = fmt.Errorf("%w: /home/ada/x.lock", relay.ErrBusy)
	if reason := g.handIn(oidB); !strings.HasPrefix(reason, wire.RefusalBusy+":") || strings.Contains(reason, "/home/ada") {
		t.Errorf("the box reads %q", reason)
	}
}
