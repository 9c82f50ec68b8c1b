package attach

import (
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/session/sessiontest"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	wire "github.com/madarco/agentbox/core/session"
)

func TestWhichSessionIsShown(t *testing.T) {
	t.Parallel()
	ended := 3
	several := []wire.Info{{Name: "shell", Created: 1000}, {Name: "codex", Created: 1010, Exit: &ended}, {Name: "make", Created: 1030, Attached: 1}, {Name: "claude", Created: 1020}}
	for _, c := range []struct {
		what     string
		sessions []wire.Info
		session  string
		typed    string
		shown    string
		code     fail.Code
	}{
		{what: "none", code: fail.Failed},
		{what: "the only one", sessions: several[:1], shown: "shell"},
		{what: "the one that is named", sessions: several, session: "make", shown: "make"},
		{what: "one that is not there", sessions: several, session: "nope", code: fail.Usage},
		{what: "a name that is none", sessions: several, session: "a:b", code: fail.Usage},
		{what: "the newest where nobody can choose", sessions: several, shown: "make"},
		{what: "the user's choice, agents first", sessions: several, typed: "2\n", shown: "codex"},
		{what: "the first by default", sessions: several, typed: "\n", shown: "claude"},
		{what: "no such number", sessions: several, typed: "9\n", code: fail.Usage},
	} {
		b := sessiontest.New()
		b.Sessions = append(b.Sessions, c.sessions...)
		s, _, _, words := streams.Test()
		sessiontest.Terminal(t, s, c.typed)
		s.ErrTTY = c.typed != ""
		err := Run(t.Context(), &Options{Opener: b.Opener(s), Now: func() time.Time { return time.Unix(1090, 0) }, Session: c.session})
		if e := fail.Of(err); err != nil && (e.Code != c.code || e.Next == "" && c.session != "a:b") || err == nil && c.code != 0 {
			t.Errorf("%s: %v", c.what, err)
		}
		shown := ""
		for _, line := range b.Execs {
			if name, ok := strings.CutPrefix(line, "agentbox-ctl session attach "); ok {
				shown = name
			}
		}
		if shown != c.shown {
			t.Errorf("%s: shows %q", c.what, shown)
		}
		if c.typed != "" && !strings.Contains(words.String(), "2) codex  started") || strings.Contains(c.what, "agents first") && !strings.Contains(words.String(), "ended with code 3") {
			t.Errorf("%s: said %s", c.what, words)
		}
	}
}

func TestWithoutATerminalNoBoxIsStarted(t *testing.T) {
	t.Parallel()
	b := sessiontest.New()
	b.Now, b.Sessions = core.StateStopped, []wire.Info{{Name: "shell"}}
	s, _, _, _ := streams.Test()
	err := Run(t.Context(), &Options{Opener: b.Opener(s), Ref: "shop"})
	if e := fail.Of(err); e.Code != fail.Usage || !strings.Contains(e.Next, "agentbox shell shop -- ") || b.Woken != 0 || len(b.Execs) != 0 {
		t.Errorf("%v; next %s; woken %d times, executed %v", err, e.Next, b.Woken, b.Execs)
	}
}
