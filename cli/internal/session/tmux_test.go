package session_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/session"
	"github.com/madarco/agentbox/cli/internal/session/sessiontest"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	wire "github.com/madarco/agentbox/core/session"
)

func request() wire.Request {
	return wire.Request{Name: "claude", Agent: "claude", Argv: []string{"claude"}, Env: []string{"ANTHROPIC_API_KEY=canary"}, Dir: "/workspace", Hold: true}
}

func TestAKeyGoesToTheBoxOnAStandardInputAlone(t *testing.T) {
	t.Parallel()
	b := sessiontest.New()
	s, _, _, _ := streams.Test()
	if err := session.Start(t.Context(), b, b.Box, request()); err != nil {
		t.Fatal(err)
	}
	if err := session.Foreground(t.Context(), s, b, b.Box, wire.Request{Name: "codex", Argv: []string{"codex"}, Env: []string{"OPENAI_API_KEY=canary"}, Dir: "/workspace"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(append(b.Execs, b.Env...), "\n"); strings.Contains(got, "canary") {
		t.Errorf("the engine sees the key: %s", got)
	}
	if got := b.Begun["start"].Env; len(got) != 1 || !strings.Contains(got[0], "canary") {
		t.Errorf("the session gets %q", got)
	}
}

func TestWhyASessionCouldNotBeStarted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer   int
		want     error
		code     fail.Code
		what     string
		nextStep string
	}{
		{wire.ExitExists, session.ErrExists, fail.Usage, "runs already", "agentbox claude attach shop"},
		{wire.ExitNoTmux, session.ErrNoTmux, fail.Unavailable, "no tmux", "--no-tmux"},
		{wire.ExitNoProgram, session.ErrNoProgram, fail.Unavailable, `"claude"`, "--image full"},
		{1, nil, fail.Failed, `\x1b`, ""},
	} {
		b := sessiontest.New()
		b.Refuse = c.answer
		err := session.Start(t.Context(), b, b.Box, request())
		e := fail.Of(err)
		if c.want != nil && !errors.Is(err, c.want) || e.Code != c.code || !strings.Contains(e.Next, c.nextStep) {
			t.Errorf("%d gives %v, code %d, next %q", c.answer, err, e.Code, e.Next)
		}
		if !strings.Contains(err.Error(), c.what) && !strings.Contains(err.Error(), `\u001b`) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%d gives %q", c.answer, err)
		}
	}
}

// answering is a box that answers every question with one text.
type answering string

func (a answering) Exec(_ context.Context, _ core.Box, req provider.ExecRequest) (int, error) {
	_, err := io.WriteString(req.Stdout, string(a))
	return 0, err
}

func TestABoxThatLiesAboutItsSessionsIsNotBelieved(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"sessions":[{"name":"$(reboot)","created":1,"attached":0}]}`, `{"sessions":[{"name":"--help","created":1,"attached":0}]}`, `hello`,
		`{"sessions":[` + strings.Repeat(" ", 1<<20) + `]}`,
	} {
		if list, err := session.List(t.Context(), answering(text), core.Box{Name: "shop"}); err == nil {
			t.Errorf("%.40s gives %v", text, list)
		}
	}
}

// terminal is a user's terminal and what was written to it.
func terminal(t *testing.T) (*streams.Streams, *strings.Builder) {
	t.Helper()
	var words strings.Builder
	s := &streams.Streams{ErrOut: &words, ErrTTY: true}
	sessiontest.Terminal(t, s, "")
	return s, &words
}

func TestLeavingASessionTellsTheWayBackAndItsEndGivesTheCode(t *testing.T) {
	b := sessiontest.New()
	if err := session.Start(t.Context(), b, b.Box, request()); err != nil {
		t.Fatal(err)
	}
	s, words := terminal(t)
	if err := session.Attach(t.Context(), s, b, b.Box, "claude"); err != nil || !strings.Contains(words.String(), "agentbox claude attach shop") {
		t.Errorf("after leaving: %v, %s", err, words)
	}
	if len(b.Leases) != 1 || !slices.Equal(b.Held, b.Leases) {
		t.Errorf("held %v, shown under %v", b.Held, b.Leases)
	}
	b.Ends, b.Code = true, 3
	words.Reset()
	var exit fail.Exit
	if err := session.Attach(t.Context(), s, b, b.Box, "claude"); !errors.As(err, &exit) || exit != 3 || !strings.Contains(words.String(), "has ended") {
		t.Errorf("at its end: %v, %s", err, words)
	}
}

func TestWithoutATerminalNoSessionIsShown(t *testing.T) {
	t.Parallel()
	b := sessiontest.New()
	b.Sessions = []wire.Info{{Name: "run"}}
	s, _, _, _ := streams.Test()
	if err := session.Attach(t.Context(), s, b, b.Box, "run"); fail.Of(err).Code != fail.Usage || len(b.Execs) != 0 {
		t.Errorf("%v, executed %v", err, b.Execs)
	}
}

// breaking is a box whose connection breaks.
type breaking struct{}

func (breaking) Exec(context.Context, core.Box, provider.ExecRequest) (int, error) {
	return 0, io.ErrUnexpectedEOF
}

func TestASessionThatBreaksOffLeavesTheAlternateScreen(t *testing.T) {
	user, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(user) // a terminal whose other side is gone reads EIO
		shown <- string(text)
	}()
	s := &streams.Streams{In: tty, Out: tty, ErrOut: io.Discard, InTTY: true, OutTTY: true}
	if err := session.Attach(t.Context(), s, breaking{}, core.Box{Name: "shop"}, "run"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Attach = %v", err)
	}
	tty.Close()
	text := <-shown
	user.Close()
	if !strings.Contains(text, "\x1b[?1049l") || !strings.Contains(text, "\x1b[?25h") {
		t.Errorf("the terminal got %q", text)
	}
}

func TestAnInterruptEndsWhatRunsInTheBox(t *testing.T) {
	t.Parallel()
	b := sessiontest.New()
	s, _, _, _ := streams.Test()
	ctx, cancel := context.WithCancel(t.Context())
	s.In = reader(func([]byte) (int, error) {
		cancel()
		return 0, io.EOF
	})
	r := request()
	if err := session.Foreground(ctx, s, b, b.Box, r); err != nil {
		t.Fatal(err)
	}
	if last := b.Execs[len(b.Execs)-1]; last != "agentbox-ctl session kill "+string(b.Begun["stage"].Name) {
		t.Errorf("executed %v", b.Execs)
	}
}

type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

func TestAPromptThatIsTooLongIsSaid(t *testing.T) {
	t.Parallel()
	b := sessiontest.New()
	r := request()
	r.Argv = append(r.Argv, strings.Repeat("x", wire.MaxRequest))
	if err := session.Start(t.Context(), b, b.Box, r); fail.Of(err).Code != fail.Usage || fail.Of(err).Next == "" || len(b.Execs) > 0 {
		t.Errorf("%v, %v", err, b.Execs)
	}
}
