package shell

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

type engine struct {
	provider.Provider
	state core.State
	req   provider.ExecRequest
	code  int
}

func (e *engine) State(context.Context, core.Box) (core.State, error) { return e.state, nil }

func (e *engine) Exec(_ context.Context, _ core.Box, req provider.ExecRequest) (int, error) {
	e.req = req
	_, err := io.Copy(req.Stdout, req.Stdin)
	return e.code, err
}

func TestShell(t *testing.T) {
	e := &engine{state: core.StateStopped, code: 7}
	s, in, out, _ := streams.Test()
	in.WriteString("piped\x00x")
	woken := 0
	err := Run(t.Context(), &Options{
		Streams: s, Command: []string{"cat"},
		Box:      func(string) (core.Box, error) { return core.Box{Name: "app"}, nil },
		Provider: func(string) (provider.Provider, error) { return e, nil },
		Wake: func(context.Context, core.Box) error {
			woken++
			return nil
		},
	})
	var exit fail.Exit
	if !errors.As(err, &exit) || exit != 7 || out.String() != "piped\x00x" || woken != 1 {
		t.Errorf("%v, %q, woken %d times", err, out, woken)
	}
	if e.req.TTY != nil || e.req.WorkDir != "" {
		t.Errorf("request %+v", e.req)
	}
}

func TestABoxThatCannotBeWokenRunsNothing(t *testing.T) {
	e := &engine{state: core.StateStopped}
	s, _, _, _ := streams.Test()
	sorry := errors.New("no image")
	err := Run(t.Context(), &Options{
		Streams: s, Box: func(string) (core.Box, error) { return core.Box{}, nil },
		Provider: func(string) (provider.Provider, error) { return e, nil },
		Wake:     func(context.Context, core.Box) error { return sorry },
	})
	if !errors.Is(err, sorry) || e.req.Argv != nil {
		t.Errorf("%v, ran %v", err, e.req.Argv)
	}
}
