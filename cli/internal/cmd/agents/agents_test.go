package agents

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/madarco/agentbox/cli/internal/cmd/create"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/launch"
	"github.com/madarco/agentbox/cli/internal/session/sessiontest"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/agents"
	"github.com/madarco/agentbox/core/provider"
	wire "github.com/madarco/agentbox/core/session"
)

// options are those of Claude Code with a key; made counts the boxes.
func options(b *sessiontest.Box, s *streams.Streams, made *int) *Options {
	claude, _ := agents.Lookup("claude")
	return &Options{
		Options: launch.Options{Streams: s, Getenv: func(name string) string {
			if name == "ANTHROPIC_API_KEY" {
				return "canary"
			}
			return ""
		}},
		Opener: b.Opener(s), Agent: claude, Create: &create.Options{},
		Make: func(context.Context, *create.Options) (core.Box, provider.Provider, error) {
			*made++
			return b.Box, b, nil
		},
	}
}

func TestTheAgentStartsInANewBoxAndCanBeLeft(t *testing.T) {
	b := sessiontest.New()
	s, _, _, words := streams.Test()
	sessiontest.Terminal(t, s, "")
	made := 0
	if err := Launch(t.Context(), options(b, s, &made)); err != nil || made != 1 {
		t.Fatalf("%v, %d boxes", err, made)
	}
	r := b.Begun["start"]
	if r.Name != "claude" || r.Agent != "claude" || !r.Hold || !strings.Contains(strings.Join(r.Env, " "), "ANTHROPIC_API_KEY=canary") {
		t.Errorf("request %+v", r)
	}
	if !strings.Contains(words.String(), "agentbox/shop") || !strings.Contains(words.String(), "agentbox claude attach shop") || strings.Contains(words.String(), "canary") {
		t.Errorf("said %s", words)
	}
}

func TestTheBranchIsNamedThatTheBoxIsOn(t *testing.T) {
	b := sessiontest.New()
	s, _, _, words := streams.Test()
	made := 0
	o := options(b, s, &made)
	o.Create.UseBranch = "feature/x"
	if err := Launch(t.Context(), o); err != nil || !strings.Contains(words.String(), "works on branch feature/x\n") {
		t.Errorf("%v, said %s", err, words)
	}
}

func TestWithoutKeyAndTerminalNoBoxIsMade(t *testing.T) {
	b := sessiontest.New()
	s, _, _, _ := streams.Test()
	made := 0
	o := options(b, s, &made)
	o.Getenv = func(string) string { return "" }
	if err := Launch(t.Context(), o); fail.Of(err).Code != fail.Usage || made != 0 {
		t.Errorf("%v, %d boxes", err, made)
	}
}

func TestABoxWhoseAgentCouldNotBeStartedIsNamed(t *testing.T) {
	b := sessiontest.New()
	b.Refuse = wire.ExitNoProgram
	s, _, _, words := streams.Test()
	made := 0
	o := options(b, s, &made)
	o.Detach = true
	err := Launch(t.Context(), o)
	if fail.Of(err).Code != fail.Unavailable || !strings.Contains(words.String(), "agentbox destroy shop") {
		t.Errorf("%v, said %s", err, words)
	}
}

func TestAHeadlessAgentsCodeIsOurs(t *testing.T) {
	b := sessiontest.New()
	b.Code = 4
	s, _, _, words := streams.Test()
	made := 0
	o := options(b, s, &made)
	o.Args = []string{"-p", "hi"}
	var exit fail.Exit
	if err := Launch(t.Context(), o); !errors.As(err, &exit) || exit != 4 || strings.Contains(words.String(), "destroy") {
		t.Errorf("%v, said %s", err, words)
	}
}

func TestStartShowsTheAgentThatRuns(t *testing.T) {
	b := sessiontest.New()
	b.Now = core.StatePaused
	s, _, _, words := streams.Test()
	sessiontest.Terminal(t, s, "")
	made := 0
	for _, args := range [][]string{nil, {"--model", "x"}} {
		o := options(b, s, &made)
		o.Args = args
		if err := Start(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if made != 0 || b.Woken != 1 || len(b.Sessions) != 1 || strings.Count(strings.Join(b.Execs, "\n"), "attach claude") != 2 {
		t.Errorf("%d boxes, woken %d times, %v", made, b.Woken, b.Execs)
	}
	if !strings.Contains(words.String(), "arguments stay as they were") {
		t.Errorf("said %s", words)
	}
	o := options(b, s, &made)
	o.Detach = true
	if err := Start(t.Context(), o); fail.Of(err).Next != "agentbox claude attach shop" {
		t.Errorf("a detached start of one that runs: %v", err)
	}
}

func TestAttachTakesATerminal(t *testing.T) {
	t.Parallel()
	claude, _ := agents.Lookup("claude")
	for _, c := range []struct {
		terminal bool
		ran      int
	}{{false, 0}, {true, 1}} {
		s, _, _, _ := streams.Test()
		if c.terminal {
			sessiontest.Terminal(t, s, "")
		}
		ran := 0
		cmd := New(&factory.Factory{Streams: s}, claude, &create.Options{}, nil, Runs{Start: func(context.Context, *Options) error { ran++; return nil }})
		err := cmd.Run(t.Context(), []string{"claude", "attach", "shop"})
		if ran != c.ran || (err == nil) != c.terminal {
			t.Errorf("with a terminal %v: %d runs, %v", c.terminal, ran, err)
		}
		if e := fail.Of(err); err != nil && (e.Code != fail.Usage || !strings.Contains(e.Next, "agentbox shell shop -- ")) {
			t.Errorf("%v; next %s", err, e.Next)
		}
	}
}
