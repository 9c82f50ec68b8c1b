package git

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

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
		Branch: "main", Force: true,
	}
	err := RunPush(t.Context(), o)
	var exit fail.Exit
	if !errors.As(err, &exit) || exit != 1 || r.got != (wire.HostPush{BoxID: "b00000001", Branch: "main", Force: true}) {
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
	argv []string
	code int
}

func (e *engine) Exec(_ context.Context, _ core.Box, req provider.ExecRequest) (int, error) {
	e.argv = req.Argv
	io.WriteString(req.Stdout, "## agentbox/app\n M a\x1b[2J\n") //nolint:errcheck // a buffer
	return e.code, nil
}

func TestStatusShowsTheBoxesTextWithoutItsControls(t *testing.T) {
	e := &engine{}
	s, _, out, _ := streams.Test()
	o := &StatusOptions{
		Streams: s, Box: func(string) (core.Box, error) { return box, nil },
		Provider: func(string) (provider.Provider, error) { return e, nil },
	}
	if err := RunStatus(t.Context(), o); err != nil || out.String() != "## agentbox/app\n\" M a\\u001b[2J\"\n" {
		t.Errorf("%v, %q", err, out)
	}
	if got := strings.Join(e.argv, " "); got != "git -C /workspace status --short --branch" {
		t.Errorf("ran %s", got)
	}
	e.code = 128
	var exit fail.Exit
	if err := RunStatus(t.Context(), o); !errors.As(err, &exit) || exit != 128 {
		t.Error(err)
	}
}
