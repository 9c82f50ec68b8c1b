package shell

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/session/sessiontest"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	wire "github.com/madarco/agentbox/core/session"
)

func options(b *sessiontest.Box, s *streams.Streams) *Options {
	return &Options{Opener: b.Opener(s), Now: func() time.Time { return time.Unix(1060, 0) }}
}

// onTerminal gives the streams a terminal for input and data.
func onTerminal(t *testing.T, s *streams.Streams) {
	t.Helper()
	user, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, user) //nolint:errcheck // it ends with the terminal
	t.Cleanup(func() { tty.Close(); user.Close() })
	s.In, s.Out, s.InTTY, s.OutTTY = tty, tty, true, true
}

// verbs are what was asked of the box's sessions.
func verbs(b *sessiontest.Box) string {
	return strings.ReplaceAll(strings.Join(b.Execs, ","), "agentbox-ctl session ", "")
}

func TestACommandRunsOnPlainStreamsInABoxThatIsWoken(t *testing.T) {
	b := sessiontest.New()
	b.Now, b.Code = core.StateStopped, 7
	s, in, out, _ := streams.Test()
	in.WriteString("piped\x00x")
	o := options(b, s)
	o.Command = []string{"cat"}
	err := Run(t.Context(), o)
	var exit fail.Exit
	if !errors.As(err, &exit) || exit != 7 || out.String() != "piped\x00x" || b.Woken != 1 || strings.Contains(verbs(b), "start") {
		t.Errorf("%v, %q, woken %d times, %s", err, out, b.Woken, verbs(b))
	}
}

func TestPipedInputNeverUsesASession(t *testing.T) {
	b := sessiontest.New()
	s, in, out, _ := streams.Test()
	in.WriteString("echo hi\n")
	if err := Run(t.Context(), options(b, s)); err != nil || len(b.Begun) > 0 || out.String() != "echo hi\n" {
		t.Errorf("%v, %v, %q", err, b.Begun, out)
	}
}

func TestAShellOnATerminalIsASessionThatIsFoundAgain(t *testing.T) {
	b := sessiontest.New()
	s, _, _, _ := streams.Test()
	onTerminal(t, s)
	for range 2 {
		if err := Run(t.Context(), options(b, s)); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.Sessions) != 1 || b.Sessions[0].Name != "shell" || strings.Count(verbs(b), "attach shell") != 2 {
		t.Errorf("sessions %v, asked %s", b.Sessions, verbs(b))
	}
	if r := b.Begun["start"]; !slices.Equal(r.Argv, []string{"/bin/bash", "-l"}) || r.Dir != core.WorkspacePath || r.Hold || len(r.Env) > 0 {
		t.Errorf("request %+v", r)
	}
}

func TestNamedShells(t *testing.T) {
	b := sessiontest.New()
	s, _, _, _ := streams.Test()
	onTerminal(t, s)
	b.Sessions = []wire.Info{{Name: "shell-2"}, {Name: "claude"}}
	for _, change := range []func(*Options){
		func(o *Options) { o.New = true },
		func(o *Options) { o.New = true },
		func(o *Options) { o.Label = "db" },
	} {
		o := options(b, s)
		change(o)
		if err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, i := range b.Sessions {
		names = append(names, string(i.Name))
	}
	if got := strings.Join(names, " "); got != "shell-2 claude shell shell-3 shell-db" {
		t.Errorf("sessions: %s", got)
	}
	o := options(b, s)
	o.Label = "a:b"
	if err := Run(t.Context(), o); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a bad name: %v", err)
	}
}

func TestABoxWithoutTmuxGetsAPlainShell(t *testing.T) {
	b := sessiontest.New()
	b.Refuse = wire.ExitNoTmux
	s, _, _, words := streams.Test()
	onTerminal(t, s)
	if err := Run(t.Context(), options(b, s)); err != nil || !strings.Contains(words.String(), "no tmux") || !strings.Contains(b.Execs[len(b.Execs)-1], "bash -l") {
		t.Errorf("%v, %s, %v", err, words, b.Execs)
	}
	o := options(b, s)
	o.Label = "db"
	if err := Run(t.Context(), o); fail.Of(err).Code != fail.Unavailable {
		t.Errorf("a named one: %v", err)
	}
}

func TestListAndKill(t *testing.T) {
	b := sessiontest.New()
	b.Sessions = []wire.Info{{Name: "claude", Created: 1000}, {Name: "shell", Created: 1000, Attached: 2}, {Name: "shell-db", Created: 1050}}
	s, _, out, _ := streams.Test()
	if err := RunList(t.Context(), options(b, s)); err != nil || strings.Contains(out.String(), "claude") || !strings.Contains(out.String(), "shell-db") {
		t.Errorf("%v\n%s", err, out)
	}
	o := options(b, s)
	o.Label = "db"
	if err := RunKill(t.Context(), o); err != nil || len(b.Sessions) != 2 {
		t.Errorf("%v, %v", err, b.Sessions)
	}
	if err := RunKill(t.Context(), o); err == nil || fail.Of(err).Next == "" {
		t.Errorf("killing it again: %v", err)
	}
	o = options(b, s)
	o.All = true
	if err := RunKill(t.Context(), o); err != nil || len(b.Sessions) != 1 || b.Sessions[0].Name != "claude" {
		t.Errorf("%v, %v", err, b.Sessions)
	}
}

func TestABoxThatCannotBeWokenRunsNothing(t *testing.T) {
	b := sessiontest.New()
	b.Now = core.StateStopped
	s, _, _, _ := streams.Test()
	sorry := errors.New("no image")
	o := options(b, s)
	o.Wake = func(context.Context, core.Box) error { return sorry }
	if err := Run(t.Context(), o); !errors.Is(err, sorry) || len(b.Execs) > 0 {
		t.Errorf("%v, ran %v", err, b.Execs)
	}
}
