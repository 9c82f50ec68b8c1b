package server

import (
	"os"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
)

// TestCIIsAskedAboutOnce: a yes counts for exactly the files that it was given
// for, also after a restart of the relay; what the user's switch let through is no
// yes; and without the file it is asked again.
func TestCIIsAskedAboutOnce(t *testing.T) {
	g := newRig(t)
	own := policy.RefUpdate{Ref: "refs/heads/agentbox/one", Old: zero, New: oidB}
	pushes := func(wantAsked bool, what string) {
		t.Helper()
		done := make(chan wire.Envelope, 1)
		go func() {
			env, _, err := g.push(t.Context(), g.order(own), silent)
			if err != nil {
				t.Error(err)
			}
			done <- env
		}()
		if wantAsked {
			a := g.pending()
			if ci := a.Push.Updates[0].Facts.CI; ci.Digest != g.gate.facts.CI.Digest || !strings.Contains(a.Message, "CI would run: 1 file") {
				t.Errorf("%s: the question is %q about %+v", what, a.Message, ci)
			}
			g.answer(a.ID, true, "")
		}
		if env := <-done; env.ExitCode != wire.ExitOK {
			t.Errorf("%s: %+v", what, env)
		}
	}
	g.gate.facts.CI = policy.CI{Digest: "one", Count: 1, Paths: []core.Untrusted{".github/workflows/ci.yml"}}
	g.box.AutoApproveHostActions = true
	pushes(false, "switch")
	g.box.AutoApproveHostActions = false
	pushes(true, "first")
	pushes(false, "the same files")
	g.ci = ciConsents{path: g.cfg.Home.CIConsents()}
	pushes(false, "after a restart")
	g.gate.facts.CI.Digest = "two"
	pushes(true, "other files")
	if err := os.WriteFile(g.ci.path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	pushes(true, "a file that can't be read")
	if err := os.Remove(g.ci.path); err != nil {
		t.Fatal(err)
	}
	pushes(true, "taken back")
}
