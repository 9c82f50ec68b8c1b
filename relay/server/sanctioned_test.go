package server_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/client"
	"github.com/madarco/agentbox/relay/server"
)

// operator is a client of the relay, as the user's commands are.
func (w *world) operator() *client.Client {
	w.t.Helper()
	home := core.Home(filepath.Join(filepath.Dir(w.user), "o"))
	if err := os.MkdirAll(filepath.Dir(home.OperatorSocket()), 0o700); err != nil {
		w.t.Fatal(err)
	}
	l, err := net.Listen("unix", home.OperatorSocket())
	if err != nil {
		w.t.Fatal(err)
	}
	srv := &http.Server{Handler: w.srv.OperatorHandler(), ConnContext: server.WithPeer}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }() //nolint:errcheck // it ends with Close
	c := client.New(home)
	w.t.Cleanup(func() { c.Close(); srv.Close(); <-done })
	return c
}

// reasons are what the audit says about the pushes that were begun.
func (w *world) reasons() []string {
	w.t.Helper()
	entries, err := w.st.Audit(w.t.Context(), 0, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if e.Action == "work.begin" && strings.Contains(string(e.Detail), "git.push") {
			out = append(out, e.Actor+" "+string(e.Detail))
		}
	}
	return out
}

// TestTheBranchThatTheUserPutTheBoxOn goes at once and is written down, lands
// when it moves forward, and asks when it does not.
func TestTheBranchThatTheUserPutTheBoxOn(t *testing.T) {
	w := newWorld(t)
	op := w.operator()
	base := w.git(w.user, "rev-parse", "main")
	w.git(w.user, "push", "-q", "origin", "main:dev")
	w.git(w.clone, "fetch", "-q", "origin")
	w.git(w.clone, "checkout", "-q", "dev")
	first := w.commit(w.clone, "from the box")

	// Not yet: the box went there by itself.
	out, err := w.parked(func(a wire.Approval) { w.reply(a, false, "") }, "origin", "dev")
	if err == nil || !strings.Contains(out, "denied") {
		t.Fatalf("unsanctioned: %v\n%s", err, out)
	}
	if out, err := w.cmd(w.clone, "push", w.url, "dev:refs/agentbox/landing/dev").CombinedOutput(); err == nil {
		t.Errorf("it landed unsanctioned:\n%s", out)
	}

	if err := op.Sanction(t.Context(), wire.SanctionBranch{BoxID: w.box.ID, Branch: "dev"}); err != nil {
		t.Fatal(err)
	}
	asked := func(a wire.Approval) { t.Errorf("asked: %s", a.Message); w.reply(a, false, "") }
	if out, err := w.parked(asked, "origin", "dev"); err != nil {
		t.Errorf("sanctioned push: %v\n%s", err, out)
	}
	if got := w.git(w.remote, "rev-parse", "dev"); got != first {
		t.Errorf("dev is at %s, want %s", got, first)
	}
	if !slices.ContainsFunc(w.reasons(), func(r string) bool {
		return strings.HasPrefix(r, "policy ") && strings.Contains(r, "the branch that the host put the box on")
	}) {
		t.Errorf("no audit row tells why: %q", w.reasons())
	}
	w.git(w.clone, "push", "-q", w.url, "dev:refs/agentbox/landing/dev")
	if got := w.git(w.user, "rev-parse", "dev"); got != first {
		t.Errorf("landed %s, want %s", got, first)
	}

	// A rewrite asks on the way to the remote, and stays in the gate.
	w.git(w.clone, "reset", "-q", "--hard", base)
	w.commit(w.clone, "instead")
	if out, err := w.parked(func(a wire.Approval) {
		if !strings.Contains(a.Message, "rewrite") && !strings.Contains(a.Push.Updates[0].Reason, "not a fast-forward") {
			t.Errorf("the question is %q, %q", a.Message, a.Push.Updates[0].Reason)
		}
		w.reply(a, false, "")
	}, "--force", "origin", "dev"); err == nil {
		t.Errorf("a rewrite went through:\n%s", out)
	}
	if out, err := w.cmd(w.clone, "push", w.url, "+dev:refs/agentbox/landing/dev").CombinedOutput(); err == nil {
		t.Errorf("a rewrite landed:\n%s", out)
	}
	if remote, user := w.git(w.remote, "rev-parse", "dev"), w.git(w.user, "rev-parse", "dev"); remote != first || user != first {
		t.Errorf("dev moved: remote %s, user %s, want %s", remote, user, first)
	}

	// And no longer, once the user has put the box elsewhere.
	if err := op.Sanction(t.Context(), wire.SanctionBranch{BoxID: w.box.ID, Branch: "other"}); err != nil {
		t.Fatal(err)
	}
	w.git(w.clone, "reset", "-q", "--hard", first)
	w.commit(w.clone, "more")
	if _, err := w.parked(func(a wire.Approval) { w.reply(a, false, "") }, "origin", "dev"); err == nil {
		t.Error("a branch of before went through")
	}
}

// TestARegistrationKeepsItsTokenWhenABranchIsSanctioned: the box goes on
// working.
func TestARegistrationKeepsItsTokenWhenABranchIsSanctioned(t *testing.T) {
	w := newWorld(t)
	if err := w.operator().Sanction(t.Context(), wire.SanctionBranch{BoxID: w.box.ID, Branch: "dev"}); err != nil {
		t.Fatal(err)
	}
	own := w.commit(w.clone, "from the box")
	w.git(w.clone, "push", "-q", "origin", "HEAD")
	if got := w.git(w.remote, "rev-parse", "agentbox/one"); got != own {
		t.Errorf("pushed %s, want %s", got, own)
	}
}
