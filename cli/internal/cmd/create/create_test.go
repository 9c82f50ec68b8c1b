package create

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/cli/internal/boxes"
	"github.com/madarco/agentbox/cli/internal/cmd/git"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/gitgate"
	"github.com/madarco/agentbox/sandbox-core/state"
	"github.com/madarco/agentbox/sandbox-core/workspace"
)

// ground is a project, an engine and a relay in which everything works.
type ground struct {
	provider.Provider
	factory.Relay
	req     provider.CreateRequest
	argv    []string
	include []string
	repo    core.Repo
	// from are the starts that the project was opened with; missing has none of
	// that name.
	from    []string
	missing string
	// put are the branches that the box was put on, with a right to them or not.
	put, booked, noted []string
	refusal            error
}

func (g *ground) MayPutOn(core.Box, core.BranchName) error { return g.refusal }

func (g *ground) PutOn(_ context.Context, _ core.Box, b core.BranchName) error {
	g.booked = append(g.booked, string(b))
	return nil
}

func (g *ground) Note(_ context.Context, _ core.Box, b core.BranchName) error {
	g.noted = append(g.noted, string(b))
	return nil
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
	if req.Argv[0] == "git" {
		g.put = append(g.put, req.Argv[len(req.Argv)-1])
		return 0, nil
	}
	return 4, nil
}

func (g *ground) Register(context.Context, wire.RegisterBox) error { return nil }
func (g *ground) Root() string                                     { return "/p" }
func (g *ground) Folder() string                                   { return "shop" }
func (g *ground) Notes() []string                                  { return []string{`left out: ".env"`} }

func (g *ground) BranchTaken(context.Context, core.BranchName) (bool, error) { return false, nil }

func (g *ground) Repos(b core.BranchName) []core.Repo {
	if g.repo.Kind == "" {
		g.repo.Kind = "root"
	}
	repo := g.repo
	repo.Branch = b
	return []core.Repo{repo}
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
		Open: func(_ context.Context, _ string, w workspace.Options) (boxes.Project, error) {
			g.include, g.from = w.Include, append(g.from, w.From)
			if w.From != "" && w.From == g.missing {
				return nil, gitgate.ErrNoCommit
			}
			return g, nil
		},
		Keeper: func() (git.Keeper, error) { return g, nil },
		Creator: func(p provider.Provider) (*boxes.Creator, error) {
			return &boxes.Creator{
				Home: home, Store: state.Open(home), Provider: p, Now: time.Now, Remains: func(string) {}, AutoApproveSafe: true,
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
	o.Open = func(context.Context, string, workspace.Options) (boxes.Project, error) {
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

func TestWhereABoxStarts(t *testing.T) {
	onMain := core.Repo{Kind: "root", BaseBranch: "main", Remote: "origin", DefaultBranch: "main"}
	noHead := onMain
	noHead.DefaultBranch = ""
	for _, tc := range []struct {
		what            string
		from, useBranch string
		repo            core.Repo
		missing         string
		opened          string // the last start
		put, booked     string
	}{
		{what: "at HEAD", repo: onMain},
		{what: "at a commit", from: "v1.0~2", repo: onMain, opened: "v1.0~2"},
		{what: "on a branch of the user's", useBranch: "dev", repo: onMain, opened: "dev", put: "dev", booked: "dev"},
		{what: "on a branch that only the remote has", useBranch: "dev", repo: onMain, missing: "dev", opened: "origin/dev", put: "dev", booked: "dev"},
		{what: "on the user's own, with their work", useBranch: "topic", repo: core.Repo{Kind: "root", BaseBranch: "topic", Remote: "origin", DefaultBranch: "main"}, put: "topic", booked: "topic"},
		{what: "on the default branch, which goes on asking", useBranch: "main", repo: onMain, put: "main"},
		{what: "where the default branch is not known", useBranch: "dev", repo: noHead, opened: "dev", put: "dev"},
		{what: "without a remote", useBranch: "dev", repo: core.Repo{Kind: "root", BaseBranch: "main"}, opened: "dev", put: "dev", booked: "dev"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			g := &ground{repo: tc.repo, missing: tc.missing}
			s, _, out, words := streams.Test()
			o := options(t, s, g)
			o.From, o.UseBranch = tc.from, tc.useBranch
			if err := Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if opened := g.from[len(g.from)-1]; opened != tc.opened || strings.Join(g.put, " ") != tc.put || strings.Join(g.booked, " ") != tc.booked {
				t.Errorf("opened at %q, put on %q, booked %q", g.from, g.put, g.booked)
			}
			if asks := tc.put != "" && tc.booked == ""; asks != (strings.Join(g.noted, " ") == tc.put && tc.put != "") {
				t.Errorf("put on %q, noted %q", g.put, g.noted)
			}
			if tc.useBranch != "" && !strings.Contains(out.String(), tc.useBranch+" (its own is agentbox/") {
				t.Errorf("shown as\n%s", out)
			}
			if asks := tc.put != "" && tc.booked == ""; strings.Contains(words.String(), " ask, as it is or may be ") != asks {
				t.Errorf("words %s", words)
			}
		})
	}
}

func TestAStartThatMakesNoSenseMakesNothing(t *testing.T) {
	for what, change := range map[string]func(*Options, *ground){
		"an option as a commit":  func(o *Options, _ *ground) { o.From = "--all" },
		"an option as a branch":  func(o *Options, _ *ground) { o.UseBranch = "--detach" },
		"another box's branch":   func(o *Options, g *ground) { o.UseBranch, g.refusal = "agentbox/other", core.ErrInvalid },
		"a commit that is not":   func(o *Options, g *ground) { o.From, g.missing = "nope", "nope" },
		"a branch that is not":   func(o *Options, g *ground) { o.UseBranch, g.missing = "nope", "nope" },
		"a branch of no project": func(o *Options, g *ground) { o.UseBranch, g.repo.Kind = "dev", "nested" },
	} {
		g := &ground{}
		s, _, out, _ := streams.Test()
		o := options(t, s, g)
		change(o, g)
		if err := Run(t.Context(), o); fail.Of(err).Code != fail.Usage || g.req.Setup != nil || out.Len() != 0 {
			t.Errorf("%s: %v, %s", what, err, out)
		}
	}
}
