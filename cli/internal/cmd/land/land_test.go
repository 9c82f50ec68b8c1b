package land

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
)

const tip = core.ObjectID("2222222222222222222222222222222222222222")

// desk is a box's keeper and the relay at once.
type desk struct {
	factory.Relay
	waiting []wire.WaitingLanding
	asked   wire.AskedLanding
	branch  core.BranchName
	as      core.BranchName
	answers []wire.Answer
	done    wire.Answered
}

func (d *desk) Land(_ context.Context, _ core.Box, w io.Writer) (int, error) {
	_, err := io.WriteString(w, "/workspace agentbox/app landed\n\x1b[8mhidden")
	return 1, err
}

func (d *desk) AskToLand(_ context.Context, _ core.Box, branch, as core.BranchName) (wire.AskedLanding, error) {
	d.branch, d.as = branch, as
	return d.asked, nil
}

func (d *desk) Landings(context.Context, string) ([]wire.WaitingLanding, error) {
	return d.waiting, nil
}

func (d *desk) Answer(_ context.Context, a wire.Answer) (wire.Answered, error) {
	d.answers = append(d.answers, a)
	return d.done, nil
}

type relayOnly struct{ *desk }

func (relayOnly) Land(context.Context, string, bool, io.Reader) ([]wire.LandingResult, error) {
	return nil, errors.ErrUnsupported
}

func options(d *desk, s *streams.Streams) *Options {
	return &Options{
		Streams: s, Box: func(string) (core.Box, error) { return core.Box{Name: "app"}, nil },
		Relay:  func(context.Context) (factory.Relay, error) { return relayOnly{d}, nil },
		Keeper: func() (Keeper, error) { return d, nil },
		Now:    func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	}
}

func TestLandPassesTheBoxesWordsOnWithoutTheirControls(t *testing.T) {
	s, _, out, words := streams.Test()
	d := &desk{waiting: []wire.WaitingLanding{{Landing: wire.Landing{Branch: "agentbox/app", New: tip, Status: wire.LandedCheckedOut}}}}
	o := options(d, s)
	var exit fail.Exit
	err := Run(t.Context(), o)
	if !errors.As(err, &exit) || exit != 1 || out.String() != "/workspace agentbox/app landed\n\"\\u001b[8mhidden\"\n" {
		t.Errorf("%v, %q", err, out)
	}
	want := "warning: commit 222222222222 of agentbox/app has not landed: you have the branch checked out; next: switch to another branch, then: agentbox land app\n"
	if !strings.HasSuffix(words.String(), want) {
		t.Errorf("words %q", words)
	}
	o.Relay = func(context.Context) (factory.Relay, error) { return nil, errors.New("no relay") }
	if err := Run(t.Context(), o); err == nil || errors.As(err, &exit) {
		t.Errorf("without a relay: %v", err)
	}
}

func question() *wire.Approval {
	return &wire.Approval{
		ID: "a-1", BoxName: "app", Digest: "d1g", Message: "land agentbox/app", Land: &wire.LandApproval{
			Project: "/p", Status: wire.LandedDiverged, Update: wire.PushedRef{
				RefUpdate: policy.RefUpdate{Ref: "refs/heads/agentbox/app", Old: core.ZeroID(40), New: tip}, Reason: "the user has moved the branch",
				Facts: policy.Facts{Findings: []policy.Finding{{Rule: "a link out of the tree", Path: "x\x1b[2J"}}},
			},
		},
	}
}

func TestABranchLandsAfterItWasShown(t *testing.T) {
	s, in, out, words := streams.Test()
	s.InTTY, s.ErrTTY = true, true
	in.WriteString("y\nn\n")
	d := &desk{asked: wire.AskedLanding{Approval: question()}, done: wire.Answered{Result: "rewritten agentbox/app 222222222222\n"}}
	o := options(d, s)
	o.Branch, o.As = "agentbox/app", "agentbox/app-2"
	if err := Run(t.Context(), o); err != nil || out.String() != "rewritten agentbox/app 222222222222\n" {
		t.Fatalf("%v, %q", err, out)
	}
	if d.branch != o.Branch || d.as != o.As || len(d.answers) != 1 || d.answers[0] != (wire.Answer{ID: "a-1", Answer: "y", Digest: "d1g"}) {
		t.Errorf("%+v", d)
	}
	for _, line := range []string{"  into your repository /p\n", "refs/heads/agentbox/app  new -> 222222222222", `! a link out of the tree: "x\u001b[2J"`} {
		if !strings.Contains(words.String(), line) {
			t.Errorf("%q is not shown in\n%s", line, words)
		}
	}
	if err := Run(t.Context(), o); err != nil || d.answers[1].Answer != "n" || !strings.Contains(words.String(), "nothing has moved") {
		t.Errorf("a no: %v, %+v, %s", err, d.answers, words)
	}
}

func TestWithoutATerminalTheQuestionStays(t *testing.T) {
	s, _, _, _ := streams.Test()
	d := &desk{asked: wire.AskedLanding{Approval: question()}}
	o := options(d, s)
	o.Branch = "agentbox/app"
	if err := Run(t.Context(), o); err == nil || fail.Of(err).Code != fail.Refused || fail.Of(err).Next != "agentbox agent approve a-1" || len(d.answers) != 0 {
		t.Errorf("%v, %v", err, d.answers)
	}
	d.asked = wire.AskedLanding{Landing: wire.Landing{Branch: "agentbox/app", New: tip, Status: wire.LandedUpToDate}}
	if err := Run(t.Context(), o); err != nil {
		t.Error(err)
	}
	d.asked.Landing.Status = wire.LandedCheckedOut
	if err := Run(t.Context(), o); err == nil || fail.Of(err).Code != fail.Failed {
		t.Error(err)
	}
}
