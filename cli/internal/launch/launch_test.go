package launch

import (
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/session/sessiontest"
	"github.com/madarco/agentbox/cli/internal/streams"
)

func environment(entries ...string) func(string) string {
	return func(name string) string {
		for _, e := range entries {
			if n, value, _ := strings.Cut(e, "="); n == name {
				return value
			}
		}
		return ""
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	o := &Options{Getenv: environment("ANTHROPIC_API_KEY=k", "OPENAI_API_KEY=o")}
	for _, c := range []struct {
		command  []string
		name     string
		agent    string
		argv     []string
		env      string
		headless bool
	}{
		{[]string{"make", "-j2", "a b"}, "make", "", []string{"make", "-j2", "a b"}, "", false},
		{[]string{"cd x && make"}, "run", "", []string{"/bin/bash", "-lc", "cd x && make"}, "", false},
		{[]string{"/opt/x/claude", "-p"}, "claude", "", []string{"/opt/x/claude", "-p"}, "", false},
		{[]string{"claude"}, "claude", "claude", []string{"claude", "--dangerously-skip-permissions"}, "ANTHROPIC_API_KEY=k", false},
		{[]string{"claude", "-p", "hi"}, "claude", "claude", []string{"claude", "--dangerously-skip-permissions", "-p", "hi"}, "ANTHROPIC_API_KEY=k", true},
		{[]string{"opencode", "run", "hi"}, "opencode", "opencode", []string{"opencode", "run", "hi"}, "OPENAI_API_KEY=o", true},
	} {
		p := o.Plan(c.command)
		r := p.Request
		if string(r.Name) != c.name || r.Agent != c.agent || !slices.Equal(r.Argv, c.argv) || p.Headless != c.headless || r.Check() != nil {
			t.Errorf("%q: %+v", c.command, p)
		}
		if c.env != "" && !slices.Contains(r.Env, c.env) || c.env == "" && len(r.Env) > 0 {
			t.Errorf("%q: environment %q", c.command, r.Env)
		}
	}
}

func TestAnAgentWithoutAKeyNeedsATerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env     string
		tty     bool
		command []string
		refused bool
	}{
		{"", false, []string{"claude"}, true},
		{"", true, []string{"claude"}, false},
		{"", true, []string{"claude", "-p", "x"}, true},
		{"ANTHROPIC_API_KEY=k", false, []string{"claude", "-p", "x"}, false},
		{"OPENAI_API_KEY=k", false, []string{"claude"}, true},
		{"", false, []string{"make", "x"}, false},
	} {
		s, _, _, words := streams.Test()
		s.InTTY, s.OutTTY = c.tty, c.tty
		o := &Options{Streams: s, Getenv: environment(c.env)}
		err := o.CheckKey(o.Plan(c.command))
		if (err != nil) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		if e := fail.Of(err); c.refused && (e.Code != fail.Usage || !strings.Contains(e.Next, "ANTHROPIC_API_KEY")) {
			t.Errorf("%+v: code %d, next %q", c, e.Code, e.Next)
		}
		if c.tty && !c.refused && !strings.Contains(words.String(), "log in") {
			t.Errorf("%+v says %q", c, words)
		}
	}
}

func TestWhereACommandRuns(t *testing.T) {
	user, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	defer tty.Close()
	go io.Copy(io.Discard, user) //nolint:errcheck // it ends with the terminal
	for _, c := range []struct {
		what    string
		tty     bool
		detach  bool
		command []string
		execs   string
	}{
		{"a terminal gets a session", true, false, []string{"claude"}, "start,attach claude,list --json"},
		{"a headless agent gets the streams", true, false, []string{"claude", "-p", "x"}, "stage,run once-*"},
		{"no terminal gets the streams", false, false, []string{"make", "x"}, "stage,run once-*"},
		{"detached is a session, terminal or not", false, true, []string{"make", "x"}, "start"},
		{"detached also for a headless agent", true, true, []string{"claude", "-p", "x"}, "start"},
	} {
		s, _, _, _ := streams.Test()
		if c.tty {
			s.In, s.Out, s.InTTY, s.OutTTY = tty, tty, true, true
		}
		b := sessiontest.New()
		o := &Options{Streams: s, Getenv: environment(), Detach: c.detach}
		if err := o.Start(t.Context(), b, b.Box, o.Plan(c.command)); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		got := strings.ReplaceAll(strings.Join(b.Execs, ","), "agentbox-ctl session ", "")
		if matches, err := path.Match(c.execs, got); err != nil || !matches {
			t.Errorf("%s: executed %s, want %s", c.what, got, c.execs)
		}
	}
}

func TestTheCodeOfACommandOnPlainStreamsIsOurs(t *testing.T) {
	t.Parallel()
	s, in, out, _ := streams.Test()
	in.WriteString("piped\x00x")
	b := sessiontest.New()
	b.Code = 7
	o := &Options{Streams: s, Getenv: environment()}
	var exit fail.Exit
	if err := o.Start(t.Context(), b, b.Box, o.Plan([]string{"make", "x"})); !errors.As(err, &exit) || exit != 7 || out.String() != "piped\x00x" {
		t.Errorf("%v, %q", err, out)
	}
}

func TestADetachedStartShowsWhereItRuns(t *testing.T) {
	t.Parallel()
	s, _, out, words := streams.Test()
	b := sessiontest.New()
	o := &Options{Streams: s, Getenv: environment(), Detach: true}
	if err := o.Start(t.Context(), b, b.Box, o.Plan([]string{"codex"})); err != nil {
		t.Fatal(err)
	}
	if out.String() != "session codex runs in box shop\n" || words.String() != "next: agentbox codex attach shop\n" {
		t.Errorf("%q, %q", out, words)
	}
	out.Reset()
	o.JSON = output.JSON{On: true}
	if err := o.Start(t.Context(), b, b.Box, o.Plan([]string{"make", "x"})); err != nil {
		t.Fatal(err)
	}
	if want := `{"box":"shop","id":"b0000000a","session":"make","attach":"agentbox attach shop --session make"}` + "\n"; out.String() != want {
		t.Errorf("got %s want %s", out, want)
	}
	if err := (&Options{JSON: output.JSON{On: true}}).Check(); fail.Of(err).Code != fail.Usage {
		t.Errorf("--json without --detach: %v", err)
	}
}
