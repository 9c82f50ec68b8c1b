package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/redlist"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/store"
)

// words collects what a pusher is told.
type words struct {
	mu    sync.Mutex
	lines []string
}

func (w *words) say(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, line)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.lines, "\n")
}

func silent(string) {}

func TestOwnBranchGoesAtOnceAndIsWrittenDownFirst(t *testing.T) {
	g := newRig(t)
	g.gate.onPush = func(_ context.Context, r relay.PushRequest) (relay.PushResult, error) {
		intents, err := g.store.Intents(t.Context())
		if err != nil || len(intents) != 1 || intents[0].Child.PID == 0 || intents[0].Child.Started == "" {
			t.Errorf("while the push runs the intents are %+v, %v", intents, err)
		}
		if got := g.actions(); !slices.Equal(got, []string{"policy work.begin"}) {
			t.Errorf("while the push runs the audit log is %q", got)
		}
		return took(r), nil
	}
	u := policy.RefUpdate{Ref: "refs/heads/agentbox/one", Old: zero, New: oidB}
	env, results, err := g.push(t.Context(), g.order(u), silent)
	if err != nil || env.ExitCode != 0 || results[0].Reason != "" {
		t.Fatalf("got %+v, %+v, %v", env, results, err)
	}
	want := relay.PushRequest{URL: remoteURL, Updates: []policy.RefUpdate{u}}
	if got := g.gate.pushed(); len(got) != 1 || got[0].URL != want.URL || got[0].Updates[0] != u {
		t.Errorf("pushed %+v; want %+v", got, want)
	}
	if got := g.actions(); !slices.Equal(got, []string{"policy work.begin", "relay work.end"}) {
		t.Errorf("the audit log is %q", got)
	}
}

func TestNoRowNoRun(t *testing.T) {
	g := newRig(t)
	_ = g.store.Close()
	_, _, err := g.push(t.Context(), g.order(policy.RefUpdate{Ref: "refs/heads/agentbox/one", Old: zero, New: oidB}), silent)
	if err == nil || len(g.gate.pushed()) > 0 {
		t.Errorf("a push ran that could not be written down: %v", err)
	}
}

func TestAskedPushWaitsSaysWhyAndRunsOnYes(t *testing.T) {
	g := newRig(t)
	var told words
	type answer struct {
		env wire.Envelope
		err error
	}
	done := make(chan answer, 1)
	go func() {
		env, _, err := g.push(t.Context(), g.order(toMain), told.say)
		done <- answer{env, err}
	}()
	a := g.pending()
	if want := `push main aaaaaaa..bbbbbbb (2 commits, 3 files) to origin "https://git.example.com/acme/shop.git"`; a.Message != want {
		t.Errorf("message is %s; want %s", a.Message, want)
	}
	if len(g.gate.pushed()) > 0 {
		t.Error("it ran before the answer")
	}
	g.answer(a.ID, true, "")
	if got := <-done; got.err != nil || got.env.ExitCode != 0 {
		t.Fatalf("got %+v", got)
	}
	if want := "agentbox: waiting for the user's yes; on the host: agentbox agent approve " + a.ID; !strings.Contains(told.String(), want) {
		t.Errorf("the pusher was told %q; want %q in it", told.String(), want)
	}
	want := []string{"box approval.pending", "operator uid=0 pid=1 approval.approved", "operator uid=0 pid=1 work.begin", "relay work.end"}
	if got := g.actions(); !slices.Equal(got, want) {
		t.Errorf("the audit log is %q; want %q", got, want)
	}
}

func TestDeniedPushTellsTheNote(t *testing.T) {
	g := newRig(t)
	reason := make(chan string, 1)
	go func() {
		_, results, _ := g.push(t.Context(), g.order(toMain), silent)
		reason <- results[0].Reason
	}()
	g.answer(g.pending().ID, false, "use a branch")
	got := <-reason
	if want := "denied by the user: use a branch"; got != want {
		t.Errorf("the reason is %q; want %q", got, want)
	}
	if code, ok := wire.RefusalExit(got); !ok || code != wire.ExitDenied {
		t.Errorf("its exit code is %d, %v", code, ok)
	}
	if len(g.gate.pushed()) > 0 {
		t.Error("it ran")
	}
}

func TestSameRequestTwiceIsOneQuestionAndRunsOnce(t *testing.T) {
	g := newRig(t)
	var wg sync.WaitGroup
	envs := make([]wire.Envelope, 3)
	waiting := make(chan struct{}, len(envs))
	tell := func(line string) {
		if strings.Contains(line, "waiting for the user") {
			waiting <- struct{}{}
		}
	}
	for i := range envs {
		wg.Go(func() { envs[i], _, _ = g.push(t.Context(), g.order(toMain), tell) })
	}
	for range envs {
		<-waiting
	}
	g.answer(g.pending().ID, true, "")
	wg.Wait()
	for _, env := range envs {
		if env.ExitCode != 0 {
			t.Errorf("one caller got %+v", env)
		}
	}
	if n := len(g.gate.pushed()); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

func TestCallerWhoLeavesKeepsTheQuestionAndTheYesServesTheNext(t *testing.T) {
	g := newRig(t)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, _, err := g.push(ctx, g.order(toMain), silent)
		left <- err
	}()
	a := g.pending()
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("the caller got %v", err)
	}
	g.answer(a.ID, true, "")
	if len(g.gate.pushed()) > 0 {
		t.Fatal("it ran with nobody waiting")
	}
	if env, _, err := g.push(t.Context(), g.order(toMain), silent); err != nil || env.ExitCode != 0 {
		t.Fatalf("the next caller got %+v, %v", env, err)
	}
	// The yes is used up: the same request opens a question again.
	ctx, leave = context.WithCancel(t.Context())
	go func() { _, _, err := g.push(ctx, g.order(toMain), silent); left <- err }()
	if b := g.pending(); b.ID == a.ID {
		t.Error("one yes let two pushes through")
	}
	leave()
	<-left
}

func TestANoThatNobodyHeardIsToldOnce(t *testing.T) {
	g := newRig(t)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, _, err := g.push(ctx, g.order(toMain), silent); left <- err }()
	a := g.pending()
	leave()
	<-left
	g.answer(a.ID, false, "use a branch")
	env, _, err := g.push(t.Context(), g.order(toMain), silent)
	if err != nil || env.ExitCode != wire.ExitDenied || !strings.Contains(env.Stderr, "use a branch") {
		t.Errorf("the next caller got %+v, %v", env, err)
	}
	ctx, leave = context.WithCancel(t.Context())
	go func() { _, _, err := g.push(ctx, g.order(toMain), silent); left <- err }()
	if b := g.pending(); b.ID == a.ID {
		t.Error("no new question was opened")
	}
	leave()
	<-left
}

func TestAnotherRequestDoesNotUseTheYes(t *testing.T) {
	g := newRig(t)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 2)
	go func() { _, _, err := g.push(ctx, g.order(toMain), silent); left <- err }()
	a := g.pending()
	g.answer(a.ID, true, "")
	<-left
	for name, u := range map[string]policy.RefUpdate{
		"another commit":    {Ref: "refs/heads/main", Old: oidA, New: oidC},
		"another old value": {Ref: "refs/heads/main", Old: oidC, New: oidB},
		"another ref":       {Ref: "refs/heads/release", Old: oidA, New: oidB},
	} {
		go func() { _, _, err := g.push(ctx, g.order(u), silent); left <- err }()
		q := g.pending()
		if q.ID == a.ID || q.Digest == a.Digest {
			t.Errorf("%s shares the question", name)
		}
		g.answer(q.ID, false, "")
		<-left
	}
	leave()
}

func TestDeadlineAnswersForTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(c *Config) { c.ApprovalTTL = time.Hour })
		_, results, err := g.push(t.Context(), g.order(toMain), silent)
		if err != nil || !strings.HasPrefix(results[0].Reason, "expired: nobody answered") {
			t.Errorf("got %+v, %v", results, err)
		}
	})
}

func TestQuestionsOfABoxAreBounded(t *testing.T) {
	g := newRig(t)
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range maxPending {
		u := toMain
		u.Old = core.ObjectID(strings.Repeat("0", 38) + string(rune('a'+i/10)) + string(rune('0'+i%10)))
		wg.Go(func() { _, _, _ = g.push(ctx, g.order(u), silent) })
	}
	for {
		changed, stop := g.store.Watch(store.PendingTopic)
		n, err := g.store.PendingApprovals(t.Context(), g.box.ID)
		if err != nil {
			t.Fatal(err)
		}
		if n == maxPending {
			stop()
			break
		}
		<-changed
		stop()
	}
	env, _, err := g.push(t.Context(), g.order(toMain), silent)
	if err != nil || env.ExitCode != wire.ExitDenied || !strings.Contains(env.Stderr, "20 questions") {
		t.Errorf("got %+v, %v", env, err)
	}
	leave()
	wg.Wait()
}

func TestApprovalsOffStillAskWhatTakesAPerson(t *testing.T) {
	g := newRig(t, func(c *Config) { c.ApprovalsOff = true })
	other := policy.RefUpdate{Ref: "refs/heads/feature", Old: zero, New: oidB}
	if env, _, err := g.push(t.Context(), g.order(other), silent); err != nil || env.ExitCode != 0 {
		t.Errorf("a branch of no importance: %+v, %v", env, err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _, _, _ = g.push(t.Context(), g.order(toMain), silent) }()
	g.answer(g.pending().ID, false, "")
	<-done
	g.gate.facts.Findings = []policy.Finding{{Rule: "a workflow", Path: "x"}}
	g.gate.facts.RedList = []redlist.Group{{Class: redlist.Hook, What: "git hooks"}, {Class: redlist.Link, What: "links"}}
	done = make(chan struct{})
	go func() { defer close(done); _, _, _ = g.push(t.Context(), g.order(other), silent) }()
	a := g.pending()
	if !strings.Contains(a.Message, "3 files; changes git hooks, links) with 1 finding, first a workflow") || len(a.Push.Updates[0].Facts.RedList) != 2 {
		t.Errorf("message is %q", a.Message)
	}
	g.answer(a.ID, false, "")
	<-done
}

func TestAnotherRemoteAddressAsks(t *testing.T) {
	g := newRig(t)
	g.gate.url = "https://evil.example.com/x.git"
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = g.push(t.Context(), g.order(policy.RefUpdate{Ref: "refs/heads/agentbox/one", Old: zero, New: oidB}), silent)
	}()
	a := g.pending()
	if !strings.Contains(a.Message, "evil.example.com") {
		t.Errorf("message is %q", a.Message)
	}
	g.answer(a.ID, false, "")
	<-done
}

func TestWhatTheRemoteSaysIsQuoted(t *testing.T) {
	g := newRig(t)
	g.gate.onPush = func(_ context.Context, r relay.PushRequest) (relay.PushResult, error) {
		return relay.PushResult{Refs: []relay.PushedRef{
			{Ref: r.Updates[0].Ref, Status: '!', Detail: "[remote rejected] (hook \x1b[31mdeclined)"},
			{Ref: r.Updates[1].Ref, Status: '!', Detail: "[rejected] (stale info)"},
			{Ref: r.Updates[2].Ref, Status: '='},
		}}, nil
	}
	var updates []policy.RefUpdate
	for _, name := range []string{"a", "b", "c"} {
		updates = append(updates, policy.RefUpdate{Ref: "refs/heads/" + name, Old: oidA, New: oidB})
	}
	o := g.order(updates...)
	o.operator = "operator uid=0 pid=1"
	env, results, err := g.push(t.Context(), o, silent)
	if err != nil || env.ExitCode != wire.ExitFailed {
		t.Fatalf("got %+v, %v", env, err)
	}
	if want := `the remote says "[remote rejected] (hook \u001b[31mdeclined)"`; results[0].Reason != want {
		t.Errorf("got %q; want %q", results[0].Reason, want)
	}
	if !strings.Contains(results[1].Reason, "somebody else has moved it") || results[2].Reason != "" {
		t.Errorf("got %+v", results)
	}
}

func TestRequestIDReplaysAndRefusesAnotherRequest(t *testing.T) {
	g := newRig(t)
	send := func(body string) (int, string) {
		w := g.do("POST", "/rpc", body)
		return w.Code, w.Body.String()
	}
	const first = `{"requestId":"r1","method":"git.push","params":{}}`
	for range 3 {
		if code, body := send(first); code != 200 {
			t.Fatalf("got %d %s", code, body)
		}
	}
	if n := len(g.gate.pushed()); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	g.gate.refs[1].OID = oidC // something else has landed meanwhile
	if code, body := send(first); code != 409 {
		t.Errorf("the same id with another request: %d %s", code, body)
	}
	if n := len(g.gate.pushed()); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

func TestWorkGoesOnWhenTheCallerLeaves(t *testing.T) {
	g := newRig(t)
	ctx, leave := context.WithCancel(t.Context())
	g.gate.onPush = func(work context.Context, r relay.PushRequest) (relay.PushResult, error) {
		leave()
		return took(r), work.Err()
	}
	env, _, err := g.push(ctx, g.order(policy.RefUpdate{Ref: "refs/heads/agentbox/one", Old: zero, New: oidB}), silent)
	if err != nil || env.ExitCode != 0 {
		t.Errorf("got %+v, %v", env, err)
	}
}

func TestStopEndsWaitsAndKeepsTheQuestion(t *testing.T) {
	g := newRig(t)
	ctx, cancel := context.WithCancel(g.Context()) // as requests of the server's sockets have
	defer cancel()
	got := make(chan error, 1)
	go func() { _, _, err := g.push(ctx, g.order(toMain), silent); got <- err }()
	a := g.pending()
	g.Close(t.Context())
	if err := <-got; !errors.Is(err, errStopping) {
		t.Errorf("the pusher got %v", err)
	}
	if a, err := g.store.Approval(t.Context(), a.ID); err != nil || a.State != wire.Pending {
		t.Errorf("the question is %v, %v", a.State, err)
	}
	if _, _, err := g.push(t.Context(), g.order(policy.RefUpdate{Ref: "refs/heads/agentbox/one", Old: zero, New: oidB}), silent); !errors.Is(err, errStopping) {
		t.Errorf("new work got %v", err)
	}
}

// TestSettingsOfABoxCountForPushes: the user's word on a box answers for pushes
// as for all else, and not for what takes a person.
func TestSettingsOfABoxCountForPushes(t *testing.T) {
	own := policy.RefUpdate{Ref: "refs/heads/agentbox/one", Old: zero, New: oidB}
	topic := policy.RefUpdate{Ref: "refs/heads/topic", Old: oidA, New: oidB}
	chosen := policy.RefUpdate{Ref: "refs/heads/chosen", Old: oidA, New: oidB}
	workflow := []redlist.Group{{Class: redlist.Workflow, What: "CI workflows"}}
	for name, c := range map[string]struct {
		all, unsafe bool
		u           policy.RefUpdate
		red         []redlist.Group
		want        policy.Verdict
	}{
		"own branch":                                {u: own, want: policy.Allow},
		"own branch, nothing safe":                  {u: own, unsafe: true, want: policy.Allow},
		"own branch with workflows":                 {u: own, red: workflow, want: policy.Ask},
		"own branch with workflows, all answered":   {u: own, red: workflow, all: true, want: policy.Ask},
		"chosen branch":                             {u: chosen, want: policy.Allow},
		"chosen branch, nothing safe":               {u: chosen, unsafe: true, want: policy.Ask},
		"another branch":                            {u: topic, want: policy.Ask},
		"another branch, all answered":              {u: topic, all: true, want: policy.Allow},
		"another branch, red list and all answered": {u: topic, red: workflow, all: true, want: policy.Ask},
		"default branch, all answered":              {u: toMain, all: true, want: policy.Ask},
	} {
		g := newRig(t)
		g.box.AutoApproveHostActions = c.all
		if c.unsafe {
			g.box.AutoApproveSafeHostActions = new(bool)
		}
		g.box.Repos[0].Sanctioned = "chosen"
		g.gate.facts.RedList = c.red
		j, err := g.judge(t.Context(), g.order(c.u))
		if err != nil || j.decision.Verdict != c.want {
			t.Errorf("%s: %v (%s), %v; want %v", name, j.decision.Verdict, j.decision.Reason, err, c.want)
		}
	}
}
