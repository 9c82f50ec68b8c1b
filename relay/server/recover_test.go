package server

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/proc"
	"github.com/madarco/agentbox/relay/store"
)

// begun writes down a push of main that an earlier relay began on a yes.
func (g *rig) begun() (store.Intent, store.Approval) {
	g.t.Helper()
	j, err := g.judge(g.t.Context(), g.order(toMain))
	if err != nil {
		g.t.Fatal(err)
	}
	request, err := json.Marshal(j.request)
	if err != nil {
		g.t.Fatal(err)
	}
	in := store.Intent{BoxID: g.box.ID, Method: methodPush, Digest: digest(g.box.ID, methodPush, request), RequestID: "r1", Actor: "operator", Request: request}
	a, _, err := g.store.OpenApproval(g.t.Context(), store.Ask{
		BoxID: g.box.ID, BoxName: g.box.Name, Method: methodPush, Digest: in.Digest, Message: j.message, Request: request, TTL: g.cfg.ApprovalTTL,
	})
	if err != nil {
		g.t.Fatal(err)
	}
	g.answer(a.ID, true, "")
	in.ApprovalID = a.ID
	if in, err = g.store.Begin(g.t.Context(), in); err != nil {
		g.t.Fatal(err)
	}
	return in, a
}

// child is a process of its own group that waits for ever.
func child(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

func TestRecoverEndsTheOldChildAndRunsTheSamePushAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		status byte
		detail string
		state  wire.ApprovalState
		exit   int
	}{
		"it had not happened":     {' ', "", wire.Done, wire.ExitOK},
		"it had happened":         {'=', "", wire.Done, wire.ExitOK},
		"somebody else was there": {'!', "[rejected] (stale info)", wire.Failed, wire.ExitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			in, a := g.begun()
			old := child(t)
			started, err := proc.Started(old.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.store.SetChild(t.Context(), in.ID, store.Child{PID: old.Process.Pid, Started: started}); err != nil {
				t.Fatal(err)
			}
			g.gate.onPush = func(_ context.Context, r relay.PushRequest) (relay.PushResult, error) {
				return relay.PushResult{Refs: []relay.PushedRef{{Ref: r.Updates[0].Ref, Status: tc.status, Detail: core.Untrusted(tc.detail)}}}, nil
			}
			if err := g.Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := old.Wait(); err == nil {
				t.Error("the child of the earlier relay ended by itself")
			}
			got, err := store.WaitApproval(t.Context(), g.store, a.ID, wire.Executing)
			if err != nil || got.State != tc.state {
				t.Errorf("the approval is %s, %v; want %s", got.State, err, tc.state)
			}
			if pushed := g.gate.pushed(); len(pushed) != 1 || pushed[0].Updates[0] != toMain || pushed[0].URL != remoteURL {
				t.Errorf("pushed %+v", pushed)
			}
			env, err := g.store.Result(t.Context(), g.box.ID, "r1", in.Digest)
			if err != nil || env.ExitCode != tc.exit {
				t.Errorf("a retry of the request reads %+v, %v", env, err)
			}
		})
	}
}

func TestWhatAStopInterruptsIsLeftForRecover(t *testing.T) {
	g := newRig(t)
	g.gate.pid = child(t).Process.Pid
	began := make(chan struct{})
	g.gate.onPush = func(ctx context.Context, _ relay.PushRequest) (relay.PushResult, error) {
		close(began)
		<-ctx.Done()
		return relay.PushResult{}, ctx.Err()
	}
	got := make(chan error, 1)
	go func() {
		_, _, err := g.push(t.Context(), g.order(policy.RefUpdate{Ref: "refs/heads/agentbox/one", Old: zero, New: oidB}), silent)
		got <- err
	}()
	<-began
	noGrace, cancel := context.WithCancel(t.Context())
	cancel()
	g.Close(noGrace)
	if err := <-got; !errors.Is(err, errStopping) {
		t.Errorf("the pusher got %v", err)
	}
	intents, err := g.store.Intents(t.Context())
	if err != nil || len(intents) != 1 {
		t.Fatalf("intents are %+v, %v", intents, err)
	}
	g.gate.onPush = nil
	next := New(g.cfg)
	if err := next.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	next.Close(t.Context())
	if intents, err := g.store.Intents(t.Context()); err != nil || len(intents) != 0 {
		t.Errorf("intents are %+v, %v", intents, err)
	}
	if n := len(g.gate.pushed()); n != 2 {
		t.Errorf("the push ran %d times; want the interrupted one and one more", n)
	}
}

func TestRecoverOfAForgottenBoxFails(t *testing.T) {
	g := newRig(t)
	_, a := g.begun()
	if _, err := g.store.ForgetBox(t.Context(), g.box.ID); err != nil {
		t.Fatal(err)
	}
	if err := g.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := store.WaitApproval(t.Context(), g.store, a.ID, wire.Executing)
	if err != nil || got.State != wire.Failed || len(g.gate.pushed()) > 0 {
		t.Errorf("the approval is %s, %v; pushed %v", got.State, err, g.gate.pushed())
	}
}
