package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/madarco/agentbox/cli/internal/cmd/land"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/wire"
)

var box = core.Box{ID: "b00000001", Name: "app", Repos: []core.Repo{{Kind: "root", BoxPath: core.WorkspacePath, Branch: "agentbox/app"}}}

type relay struct {
	factory.Relay
	got    wire.HostPush
	answer wire.Envelope
}

func (r *relay) Push(_ context.Context, p wire.HostPush) (wire.Envelope, error) {
	r.got = p
	return r.answer, nil
}

func TestPush(t *testing.T) {
	r := &relay{answer: wire.Envelope{ExitCode: 1, Stdout: "! rejected", Stderr: "remote: \x1b]0;x\x07\n"}}
	s, _, out, words := streams.Test()
	o := &PushOptions{
		Streams: s, Box: func(string) (core.Box, error) { return box, nil },
		Relay:  func(context.Context) (factory.Relay, error) { return r, nil },
		Branch: "agentbox/app", Force: true,
	}
	err := RunPush(t.Context(), o)
	var exit fail.Exit
	if !errors.As(err, &exit) || exit != 1 || r.got != (wire.HostPush{BoxID: "b00000001", Branch: "agentbox/app", Force: true}) {
		t.Errorf("%v, asked for %+v", err, r.got)
	}
	if out.String() != "! rejected\n" || words.String() != "\"remote: \\u001b]0;x\\u0007\"\n" {
		t.Errorf("%q, %q", out, words)
	}
	o.Branch = "--mirror"
	if err := RunPush(t.Context(), o); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("an option as branch: %v", err)
	}
}

type engine struct {
	provider.Provider
	ran []string
	// codes are what the commands end with, in order, then zero.
	codes []int
	hangs bool
}

func (e *engine) Exec(ctx context.Context, _ core.Box, req provider.ExecRequest) (int, error) {
	if e.hangs {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	e.ran = append(e.ran, strings.Join(req.Argv, " "))
	io.WriteString(req.Stdout, "## agentbox/app\n M a\x1b[2J\n") //nolint:errcheck // a buffer
	if len(e.ran) <= len(e.codes) {
		return e.codes[len(e.ran)-1], nil
	}
	return 0, nil
}

type keeper struct {
	refusal error
	// on and noted are the branches that boxes were put on, with and without a
	// right to them.
	on, noted []core.BranchName
}

func (k *keeper) MayPutOn(core.Box, core.BranchName) error { return k.refusal }

func (k *keeper) PutOn(_ context.Context, _ core.Box, b core.BranchName) error {
	k.on = append(k.on, b)
	return nil
}

func (k *keeper) Note(_ context.Context, _ core.Box, b core.BranchName) error {
	k.noted = append(k.noted, b)
	return nil
}

func inBox(op Op) (*Options, *engine, *keeper) {
	e, k := &engine{}, &keeper{}
	s, _, _, _ := streams.Test()
	of := box
	of.Repos = []core.Repo{{Kind: "root", BoxPath: core.WorkspacePath, Branch: "agentbox/app", BaseBranch: "main", Remote: "origin", DefaultBranch: "main"}}
	return &Options{
		Streams: s, Box: func(string) (core.Box, error) { return of, nil }, Op: op,
		Provider: func(string) (provider.Provider, error) { return e, nil },
		Keeper:   func() (Keeper, error) { return k, nil },
	}, e, k
}

func TestWhatRunsInTheBox(t *testing.T) {
	for _, tc := range []struct {
		op     Op
		change func(*Options)
		ran    []string
		on     core.BranchName
	}{
		{Status, nil, []string{"status --short --branch"}, ""},
		{Fetch, nil, []string{"fetch origin"}, ""},
		{Fetch, func(o *Options) { o.Remote = "fork" }, []string{"fetch fork"}, ""},
		{Pull, nil, []string{"pull --no-edit origin main"}, ""},
		{Pull, func(o *Options) { o.FFOnly = true }, []string{"pull --no-edit --ff-only origin main"}, ""},
		{Pull, func(o *Options) { o.Branch = "dev" }, []string{"fetch origin", "-c checkout.defaultRemote=origin switch dev", "merge --no-edit origin/dev"}, "dev"},
		{Checkout, func(o *Options) { o.Branch = "feature/x" }, []string{"-c checkout.defaultRemote=origin switch feature/x"}, "feature/x"},
		{Checkout, func(o *Options) { o.Branch = "main" }, []string{"-c checkout.defaultRemote=origin switch main"}, "main"},
		{Branch, func(o *Options) { o.Branch = "idea" }, []string{"switch --no-track --create agentbox/idea"}, "agentbox/idea"},
		{Branch, func(o *Options) { o.Branch, o.From = "agentbox/idea", "v1.0~2" }, []string{"switch --no-track --create agentbox/idea v1.0~2"}, "agentbox/idea"},
	} {
		o, e, k := inBox(tc.op)
		if tc.change != nil {
			tc.change(o)
		}
		if err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for i, want := range tc.ran {
			tc.ran[i] = "git -C /workspace " + want
		}
		var on []core.BranchName
		if tc.on != "" {
			on = append(on, tc.on)
		}
		if !slices.Equal(e.ran, tc.ran) || !slices.Equal(k.on, on) {
			t.Errorf("%s: ran %q, want %q; on %q, want %q", tc.op, e.ran, tc.ran, k.on, on)
		}
	}
}

func TestAPullMergesTheBranchThatTheBoxWasPutOn(t *testing.T) {
	o, e, _ := inBox(Pull)
	on := box
	on.Repos = []core.Repo{{Kind: "root", BoxPath: core.WorkspacePath, Branch: "agentbox/app", BaseBranch: "main", Sanctioned: "dev", Remote: "origin"}}
	o.Box = func(string) (core.Box, error) { return on, nil }
	if err := Run(t.Context(), o); err != nil || !slices.Equal(e.ran, []string{"git -C /workspace pull --no-edit origin dev"}) {
		t.Errorf("%v, ran %q", err, e.ran)
	}
}

func TestACheckoutThatFailsNamesTheWayThatFetches(t *testing.T) {
	o, e, k := inBox(Checkout)
	var words bytes.Buffer
	o.Streams.ErrOut = &words
	o.Branch, e.codes = "feature/x", []int{128}
	var exit fail.Exit
	if err := Run(t.Context(), o); !errors.As(err, &exit) || exit != 128 || len(k.on) != 0 {
		t.Errorf("%v, on %q", err, k.on)
	}
	if want := "agentbox git pull app feature/x"; !strings.Contains(words.String(), want) {
		t.Errorf("%q does not say %q", &words, want)
	}
}

// TestTheUsersWordAloneDecidesTheBranch: what can be an option or a ref of
// another kind is refused, and a failed switch books nothing.
func TestTheUsersWordAloneDecidesTheBranch(t *testing.T) {
	for _, word := range []string{"--detach", "-", "@{-1}", "a b", "refs/heads/main", "HEAD", "main:x", "a..b"} {
		o, e, k := inBox(Checkout)
		o.Branch = word
		if err := Run(t.Context(), o); !errors.Is(err, core.ErrInvalid) || len(e.ran)+len(k.on) != 0 {
			t.Errorf("%q: %v, ran %q, on %q", word, err, e.ran, k.on)
		}
	}
	for _, word := range []string{"--orphan", "-", "a b", "x;y", "$(x)", "é"} {
		o, e, k := inBox(Branch)
		o.Branch, o.From = "x", word
		if err := Run(t.Context(), o); !errors.Is(err, core.ErrInvalid) || len(e.ran)+len(k.on) != 0 {
			t.Errorf("--from %q: %v, ran %q, on %q", word, err, e.ran, k.on)
		}
	}
	o, e, k := inBox(Pull)
	o.Branch, e.codes = "dev", []int{0, 128}
	var exit fail.Exit
	if err := Run(t.Context(), o); !errors.As(err, &exit) || exit != 128 || len(k.on) != 0 || len(e.ran) != 2 {
		t.Errorf("a failed switch: %v, ran %q, on %q", err, e.ran, k.on)
	}
	o, e, k = inBox(Pull)
	o.Branch, e.codes = "dev", []int{0, 0, 1}
	if err := Run(t.Context(), o); !errors.As(err, &exit) || exit != 1 || !slices.Equal(k.on, []core.BranchName{"dev"}) {
		t.Errorf("a failed merge: %v, on %q", err, k.on)
	}
	o, e, k = inBox(Checkout)
	o.Branch, k.refusal = "agentbox/other", errors.New("another box's")
	if err := Run(t.Context(), o); !errors.Is(err, k.refusal) || len(e.ran)+len(k.on) != 0 {
		t.Errorf("another box's branch: %v, ran %q", err, e.ran)
	}
}

func TestTheDefaultBranchIsWarnedAbout(t *testing.T) {
	o, _, _ := inBox(Checkout)
	s, _, _, words := streams.Test()
	o.Streams, o.Branch = s, "main"
	if err := Run(t.Context(), o); err != nil || !strings.Contains(words.String(), "warning: main is the remote's default branch") {
		t.Errorf("%v, %s", err, words)
	}
}

func TestTheBoxesTextIsShownWithoutItsControls(t *testing.T) {
	o, e, _ := inBox(Status)
	s, _, out, words := streams.Test()
	o.Streams = s
	if err := Run(t.Context(), o); err != nil || out.String() != "## agentbox/app\n\" M a\\u001b[2J\"\n" || words.String() != "box app says:\n" {
		t.Errorf("%v, %q, %q", err, out, words)
	}
	e.codes = []int{0, 128}
	var exit fail.Exit
	if err := Run(t.Context(), o); !errors.As(err, &exit) || exit != 128 {
		t.Error(err)
	}
}

func TestASilentBoxHoldsUpNoStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, e, _ := inBox(Status)
		e.hangs = true
		if err := Run(t.Context(), o); fail.Of(err).Code != fail.Timeout {
			t.Error(err)
		}
	})
}

func TestAPushOfABranchThatDoesNotLandSaysWhatDoes(t *testing.T) {
	r := &relay{answer: wire.Envelope{ExitCode: 1, Stderr: "nothing of typo has landed yet"}}
	for branch, want := range map[string]bool{"typo": true, "agentbox/app": false, "": false} {
		s, _, _, words := streams.Test()
		o := &PushOptions{
			Streams: s, Box: func(string) (core.Box, error) { return box, nil }, Branch: branch,
			Relay: func(context.Context) (factory.Relay, error) { return r, nil },
		}
		var exit fail.Exit
		if err := RunPush(t.Context(), o); !errors.As(err, &exit) || strings.Contains(words.String(), "agentbox git checkout app") != want {
			t.Errorf("%q: %v, %s", branch, err, words)
		}
	}
}

func TestAPushToTheHostIsALanding(t *testing.T) {
	for _, tc := range []struct {
		what     string
		as, from string
		code     fail.Code
		want     core.BranchName
	}{
		{what: "the same name"},
		{what: "another", as: "review/one", want: "review/one"},
		{what: "an option", as: "-D", code: fail.Contradict},
		{what: "a refspec", as: "x:y", code: fail.Contradict},
		{what: "a path", as: "agentbox/../main", code: fail.Contradict},
		{what: "with --branch", from: "dev", code: fail.Contradict},
	} {
		s, _, _, _ := streams.Test()
		var got []*land.Options
		o := &PushOptions{Streams: s, HostOnly: true, As: tc.as, Branch: tc.from, Force: true, Land: func(_ context.Context, l *land.Options) error {
			got = append(got, l)
			return nil
		}}
		err := RunPush(t.Context(), o)
		if tc.code != 0 {
			if fail.Of(err).Code != tc.code || got != nil {
				t.Errorf("%s: %v, landed %v", tc.what, err, got)
			}
			continue
		}
		if err != nil || len(got) != 1 || !got[0].Host || !got[0].Force || got[0].As != tc.want {
			t.Errorf("%s: %v, %+v", tc.what, err, got)
		}
	}
}
