package status

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/cli/internal/view"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/wire"
)

type engine struct {
	provider.Provider
	state core.State
}

func (e engine) State(context.Context, core.Box) (core.State, error) { return e.state, nil }

type relay struct {
	factory.Relay
	waiting  []wire.Approval
	landings []wire.WaitingLanding
}

func (r relay) Approvals(context.Context, string) ([]wire.Approval, error) { return r.waiting, nil }

func (r relay) Landings(context.Context, string) ([]wire.WaitingLanding, error) {
	return r.landings, nil
}

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func options(s *streams.Streams, state core.State) *Options {
	box := core.Box{
		ID: "b00000001", Name: "app", Provider: "docker", ProjectRoot: "/p", ProjectIndex: 1, CreatedAt: now.Add(-time.Hour),
		Repos: []core.Repo{{Kind: "root", Branch: "agentbox/app", BaseBranch: "main", BaseOID: "1111111111111111111111111111111111111111"}},
	}
	return &Options{
		Streams:  s,
		Box:      func(string) (core.Box, error) { return box, nil },
		Provider: func(string) (provider.Provider, error) { return engine{state: state}, nil },
		Relay:    func() (factory.Relay, error) { return nil, errors.New("none runs") },
		Now:      func() time.Time { return now },
	}
}

func TestStatusSaysWhatIsWrongAndWhatNext(t *testing.T) {
	for state, want := range map[core.State]string{
		core.StateRunning:  "warning: no relay answers: its commits and pushes wait; next: agentbox relay start\n",
		core.StateStopped:  "warning: it does not run; next: agentbox start app\n",
		core.StateMissing:  "warning: the provider has no such box any more; next: agentbox destroy app removes what is left\n",
		core.StateUnknown:  "warning: the provider could not be asked; next: agentbox doctor\n",
		core.StateCreating: "warning: it is being created, or its create was killed; next: agentbox destroy app, if no create runs\n",
	} {
		s, _, out, words := streams.Test()
		if err := Run(t.Context(), options(s, state)); err != nil || words.String() != want {
			t.Errorf("%s: %v, %s", state, err, words)
		}
		if !strings.Contains(out.String(), "from      main at 111111111111\n") || !strings.Contains(out.String(), "state     "+string(state)+"\n") {
			t.Errorf("%s: %s", state, out)
		}
	}
}

func TestStatusShowsTheBranchThatABoxWasPutOn(t *testing.T) {
	s, _, out, _ := streams.Test()
	o := options(s, core.StateRunning)
	box, _ := o.Box("")
	box.Repos[0].Sanctioned = "feature/x"
	if err := Run(t.Context(), o); err != nil || !strings.Contains(out.String(), "branch    feature/x (its own is agentbox/app)\n") {
		t.Errorf("%v, %s", err, out)
	}
}

func TestStatusShowsWhatWaits(t *testing.T) {
	s, _, out, words := streams.Test()
	o := options(s, core.StateRunning)
	o.Relay = func() (factory.Relay, error) {
		return relay{waiting: []wire.Approval{{ID: "a-1", BoxName: "app", State: wire.Pending, Message: "push"}, {ID: "a-2", State: wire.Denied}}}, nil
	}
	if err := Run(t.Context(), o); err != nil || words.String() != view.NextAnswer+"\n" {
		t.Fatalf("%v, %s", err, words)
	}
	if !strings.Contains(out.String(), "\nwaits for you:\na-1  box app  push\n") || strings.Contains(out.String(), "a-2") {
		t.Error(out)
	}
	s, _, out, _ = streams.Test()
	o.Streams, o.JSON = s, output.JSON{On: true, Fields: []string{"name", "relay", "waiting", "health"}}
	if err := Run(t.Context(), o); err != nil || out.String() != `{"health":[],"name":"app","relay":"running","waiting":1}`+"\n" {
		t.Errorf("%v, %s", err, out)
	}
}

func TestStatusSaysWhatHasNotLanded(t *testing.T) {
	s, _, _, words := streams.Test()
	o := options(s, core.StateRunning)
	o.Relay = func() (factory.Relay, error) {
		return relay{landings: []wire.WaitingLanding{{Landing: wire.Landing{
			Branch: "agentbox/app", New: "2222222222222222222222222222222222222222", Status: wire.LandedDiverged, Detail: "the user has moved the branch to 1",
		}}}}, nil
	}
	want := "warning: commit 222222222222 of agentbox/app has not landed: the user has moved the branch to 1; next: agentbox land app agentbox/app, which shows it and asks; " +
		"or beside yours: agentbox land app agentbox/app --as agentbox/app-2\n"
	if err := Run(t.Context(), o); err != nil || words.String() != want {
		t.Errorf("%v, %s", err, words)
	}
}
