package list

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/sandbox-core/state"
)

type engine struct{ provider.Provider }

func (engine) State(context.Context, core.Box) (core.State, error) { return core.StateRunning, nil }

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

func options(s *streams.Streams, boxes ...core.Box) *Options {
	return &Options{
		Streams:  s,
		Boxes:    func() ([]core.Box, string, error) { return slices.Clone(boxes), "/p", nil },
		Provider: func(string) (provider.Provider, error) { return engine{}, nil },
		Relay: func() (factory.Relay, error) {
			return relay{waiting: []wire.Approval{{BoxID: "b00000001", State: wire.Pending}, {BoxID: "b00000001", State: wire.Done}}, landings: []wire.WaitingLanding{{BoxID: "b00000001"}}}, nil
		},
		Now: func() time.Time { return now },
	}
}

var someBoxes = []core.Box{
	{ID: "b00000002", Name: "app-2", Provider: "docker", ProjectRoot: "/p", ProjectIndex: 2, CreatedAt: now.Add(-time.Hour)},
	{
		ID: "b00000001", Name: "app", Provider: "docker", ProjectRoot: "/p", ProjectIndex: 1, CreatedAt: now.Add(-72 * time.Hour),
		Repos:  []core.Repo{{Kind: "root", Branch: "agentbox/app"}},
		Docker: &core.DockerBox{Container: "agentbox-app", Network: "agentbox-b00000001"},
	},
	{ID: "b00000003", Name: "new", Provider: "docker", ProjectRoot: "/q\x1b[2J", ProjectIndex: 1, Creating: true, CreatedAt: now},
}

func TestListShowsTheProjectsBoxesByNumber(t *testing.T) {
	s, _, out, words := streams.Test()
	if err := Run(t.Context(), options(s, someBoxes...)); err != nil {
		t.Fatal(err)
	}
	want := `N  NAME   STATE    WAITS  BRANCH                 PROVIDER  AGE
1  app    running  1      agentbox/app (behind)  docker    3d
2  app-2  running  -      -                      docker    1h
`
	if out.String() != want || words.Len() != 0 {
		t.Errorf("got\n%s%s", out, words)
	}
}

func TestListShowsTheBranchThatABoxWasPutOn(t *testing.T) {
	box := someBoxes[1]
	box.Repos = []core.Repo{{Kind: "root", Branch: "agentbox/app", Sanctioned: "feature/x"}}
	s, _, out, _ := streams.Test()
	if err := Run(t.Context(), options(s, box)); err != nil || !strings.Contains(out.String(), "feature/x (behind)  docker") || strings.Contains(out.String(), "agentbox/app") {
		t.Errorf("%v, got\n%s", err, out)
	}
}

func TestListAllShowsEveryProject(t *testing.T) {
	s, _, out, _ := streams.Test()
	o := options(s, someBoxes...)
	o.All = true
	o.Relay = func() (factory.Relay, error) { return nil, errors.New("none runs") }
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `1  new    creating  ?      -             docker    0s   "/q\u001b[2J"`) {
		t.Errorf("got\n%s", out)
	}
}

func TestListAsJSONHoldsDeclaredFieldsAlone(t *testing.T) {
	// A record of another version, with a token in it.
	home := core.Home(t.TempDir())
	const record = `{"version":1,"boxes":[{"id":"b00000001","name":"app","provider":"docker","projectRoot":"/p","projectIndex":1,"relayToken":"s3cret","docker":{"container":"agentbox-app","vncPassword":"s3cret"}}]}`
	writeState(t, home, record)
	st, err := state.Open(home).Read()
	if err != nil {
		t.Fatal(err)
	}
	s, _, out, _ := streams.Test()
	o := options(s, st.Boxes...)
	o.JSON = output.JSON{On: true}
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "s3cret") || !strings.Contains(out.String(), `"container":"agentbox-app"`) {
		t.Errorf("got %s", out)
	}
	s, _, out, _ = streams.Test()
	o = options(s, someBoxes...)
	o.JSON = output.JSON{On: true, Fields: []string{"name", "state", "waiting"}}
	if err := Run(t.Context(), o); err != nil || out.String() != `[{"name":"app","state":"running","waiting":1},{"name":"app-2","state":"running","waiting":0}]`+"\n" {
		t.Errorf("got %s, %v", out, err)
	}
}

func writeState(t *testing.T, home core.Home, content string) {
	t.Helper()
	if err := os.WriteFile(home.State(), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
