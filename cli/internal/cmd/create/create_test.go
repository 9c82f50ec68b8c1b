package create

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/cli/internal/boxes"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/sandbox-core/state"
)

// ground is a project, an engine and a relay in which everything works.
type ground struct {
	provider.Provider
	factory.Relay
	req     provider.CreateRequest
	argv    []string
	include []string
}

func (g *ground) Name() string { return "docker" }

func (g *ground) Capabilities(context.Context) (provider.Capabilities, error) {
	return provider.Capabilities{}, nil
}

func (g *ground) Create(ctx context.Context, req provider.CreateRequest) (core.Box, error) {
	g.req = req
	box := req.Box
	box.Docker = &core.DockerBox{Container: "agentbox-" + string(box.Name), Image: "agentbox/box:lean"}
	return box, req.Setup(ctx, io.Discard)
}

func (g *ground) Exec(_ context.Context, _ core.Box, req provider.ExecRequest) (int, error) {
	g.argv = req.Argv
	return 4, nil
}

func (g *ground) Register(context.Context, wire.RegisterBox) error { return nil }
func (g *ground) Root() string                                     { return "/p" }
func (g *ground) Folder() string                                   { return "shop" }
func (g *ground) Notes() []string                                  { return []string{`left out: ".env"`} }

func (g *ground) BranchTaken(context.Context, core.BranchName) (bool, error) { return false, nil }

func (g *ground) Repos(b core.BranchName) []core.Repo {
	return []core.Repo{{Kind: "root", Branch: b}}
}

func (g *ground) Seeds(context.Context, boxes.Step) (map[string]string, error) { return nil, nil }
func (g *ground) Prepare(context.Context, core.Box, boxes.Step) error          { return nil }

func (g *ground) Setup(core.Box, string) provider.Setup {
	return func(context.Context, io.Writer) error { return nil }
}

func options(t *testing.T, s *streams.Streams, g *ground) *Options {
	home := core.Home(t.TempDir())
	return &Options{
		Streams: s, ProviderName: "docker", Provider: func(string) (provider.Provider, error) { return g, nil },
		Open: func(_ context.Context, _ string, include []string) (boxes.Project, error) {
			g.include = include
			return g, nil
		},
		Creator: func(p provider.Provider) (*boxes.Creator, error) {
			return &boxes.Creator{
				Home: home, Store: state.Open(home), Provider: p, Now: time.Now, Remains: func(string) {},
				Relay: func(context.Context) (factory.Relay, error) { return g, nil },
				Step:  streams.NewSteps(s, func() time.Time { return time.Unix(0, 0) }).Step,
			}, nil
		},
	}
}

func TestCreateShowsTheBoxAndWhatIsNext(t *testing.T) {
	g := &ground{}
	s, _, out, words := streams.Test()
	o := options(t, s, g)
	o.Image, o.Include = "mine", []string{".env"}
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "box        shop (number 1, id b") || !strings.Contains(out.String(), "branch     agentbox/shop\n") {
		t.Errorf("data %s", out)
	}
	if want := "✓ relay 0.00s\nleft out: \".env\"\nnext: agentbox shell 1; agentbox destroy 1 removes it\n"; words.String() != want {
		t.Errorf("words %s", words)
	}
	if g.req.Image != "mine" || len(g.include) != 1 || g.include[0] != ".env" {
		t.Errorf("image %q, included %v", g.req.Image, g.include)
	}
}

func TestCreateAsJSON(t *testing.T) {
	s, _, out, _ := streams.Test()
	o := options(t, s, &ground{})
	o.Name, o.JSON = "api", output.JSON{On: true, Fields: []string{"name", "branch", "state"}}
	if err := Run(t.Context(), o); err != nil || out.String() != `{"branch":"agentbox/api","name":"api","state":"running"}`+"\n" {
		t.Errorf("%v, %s", err, out)
	}
}

func TestCreateWithACommandEndsWithItsCode(t *testing.T) {
	g := &ground{}
	s, _, out, _ := streams.Test()
	o := options(t, s, g)
	o.Command = []string{"make", "test"}
	var exit fail.Exit
	if err := Run(t.Context(), o); !errors.As(err, &exit) || exit != 4 || out.Len() != 0 {
		t.Errorf("%v, %s", err, out)
	}
	if n := len(g.argv); n < 2 || g.argv[n-2] != "make" || g.argv[n-1] != "test" {
		t.Errorf("ran %v", g.argv)
	}
}

func TestABadNameIsRefusedBeforeAnythingIsOpened(t *testing.T) {
	s, _, _, _ := streams.Test()
	o := options(t, s, &ground{})
	o.Open = func(context.Context, string, []string) (boxes.Project, error) {
		t.Error("the project was opened")
		return nil, errors.New("opened")
	}
	for _, name := range []string{"a/b", "-x", "hub", strings.Repeat("a", 41)} {
		o.Name = name
		if err := Run(t.Context(), o); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
