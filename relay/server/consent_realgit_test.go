package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/client"
	"github.com/madarco/agentbox/relay/store"
)

func (w *world) pendingLanding() wire.Approval {
	w.t.Helper()
	list, err := w.st.Approvals(w.t.Context(), w.box.ID, wire.Pending)
	if err != nil || len(list) != 1 || list[0].Land == nil {
		w.t.Fatalf("questions %v, %v", list, err)
	}
	return list[0].Approval
}

// yes answers as the user's command does.
func (w *world) yes(c *client.Client, a wire.Approval) wire.Answered {
	w.t.Helper()
	done, err := c.Answer(w.t.Context(), wire.Answer{ID: a.ID, Answer: "y", Digest: a.Digest})
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

// TestTheLifeOfALandingThatTakesAPerson: held, seen, landed exactly; then a
// branch that the user has moved, with a yes that comes too late.
func TestTheLifeOfALandingThatTakesAPerson(t *testing.T) {
	w := newWorld(t)
	user := w.operator()
	handIn := func() (string, error) {
		out, err := w.cmd(w.clone, "push", w.url, "+HEAD:refs/agentbox/landing/agentbox/one").CombinedOutput()
		return string(out), err
	}
	if err := os.Symlink("../outside", filepath.Join(w.clone, "leads-out")); err != nil {
		t.Fatal(err)
	}
	w.git(w.clone, "add", "leads-out")
	held := w.commit(w.clone, "with a link")
	out, err := handIn()
	a := w.pendingLanding()
	if err == nil || !strings.Contains(out, "agentbox agent approve "+a.ID) {
		t.Fatalf("%v\n%s", err, out)
	}
	if f := a.Land.Update.Facts; len(f.Findings) != 1 || f.Commits != 1 || f.Files != 2 {
		t.Errorf("facts %+v", f)
	}
	later := w.commit(w.clone, "on top")
	if out, err := handIn(); err == nil || !strings.Contains(out, "builds on what waits") || w.pendingLanding().ID != a.ID {
		t.Fatalf("%v\n%s", err, out)
	}
	if done := w.yes(user, a); done.Failed {
		t.Fatalf("%+v", done)
	}
	if got := w.git(w.user, "rev-parse", "agentbox/one"); got != later {
		t.Errorf("landed %s; want %s, which builds on %s", got, later, held)
	}

	theirs := w.git(w.user, "commit-tree", "main^{tree}", "-p", "main", "-m", "the user's")
	w.git(w.user, "update-ref", "refs/heads/agentbox/one", theirs)
	w.commit(w.clone, "goes on")
	if out, err := handIn(); err == nil || !strings.Contains(out, "the user has moved the branch") {
		t.Fatalf("%v\n%s", err, out)
	}
	a = w.pendingLanding()
	if u := a.Land.Update; string(u.Old) != theirs || a.Land.Status != wire.LandedDiverged {
		t.Errorf("the question is about %+v", a.Land)
	}
	moved := w.git(w.user, "commit-tree", "main^{tree}", "-p", theirs, "-m", "once more")
	w.git(w.user, "update-ref", "refs/heads/agentbox/one", moved)
	if done := w.yes(user, a); !done.Failed || w.git(w.user, "rev-parse", "agentbox/one") != moved {
		t.Errorf("a yes to an old value that is no longer there: %+v", done)
	}
	if again := w.pendingLanding(); string(again.Land.Update.Old) != moved {
		t.Errorf("it is asked again about %+v", again.Land)
	}
	if _, err := store.VerifyAudit(t.Context(), w.st, store.Head{}); err != nil {
		t.Error(err)
	}
}
