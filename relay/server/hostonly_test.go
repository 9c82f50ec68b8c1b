package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// landAs is `agentbox-ctl git push --host-only --as` of a box.
func (w *world) landAs(tip, as string, force bool) wire.Envelope {
	w.t.Helper()
	params, err := json.Marshal(wire.GitParams{Path: string(core.WorkspacePath), Branch: "agentbox/one", OID: tip, HostOnly: true, As: as, Force: force})
	if err != nil {
		w.t.Fatal(err)
	}
	env, err := w.srv.Dispatch(w.t.Context(), w.box, wire.Request{Method: "git.push", Params: params})
	if err != nil {
		w.t.Fatal(err)
	}
	return env
}

// asked is landAs of what takes a person, up to the question.
func (w *world) asked(tip, as string, force bool) (wire.Approval, <-chan wire.Envelope) {
	w.t.Helper()
	done := make(chan wire.Envelope, 1)
	changed, stop := w.st.Watch(store.PendingTopic)
	defer stop()
	go func() { done <- w.landAs(tip, as, force) }()
	select {
	case <-changed:
	case env := <-done:
		w.t.Fatalf("not asked about: %+v", env)
	}
	return w.pendingLanding(), done
}

// TestABoxLandsItsWorkUnderOtherNames: what is new is the user's at once, what
// they have moves after a yes, and nothing moves under their work tree.
func TestABoxLandsItsWorkUnderOtherNames(t *testing.T) {
	w := newWorld(t)
	user := w.operator()
	tip := w.commit(w.clone, "work of the box")
	w.git(w.clone, "push", "-q", w.url, "HEAD:refs/agentbox/landing/agentbox/one")
	at := func(branch string) string {
		return w.git(w.user, "for-each-ref", "--format=%(objectname)", "refs/heads/"+branch)
	}

	if env := w.landAs(tip, "topic", false); env.ExitCode != 0 || at("topic") != tip {
		t.Fatalf("a new name: %+v, at %q", env, at("topic"))
	}
	base := w.git(w.user, "rev-parse", "main")
	w.git(w.user, "branch", "behind", base)
	a, done := w.asked(tip, "behind", false)
	if u := a.Land.Update; string(u.Old) != base || string(u.New) != tip || !u.Facts.FastForward {
		t.Errorf("the question shows %+v", u)
	}
	if w.yes(user, a); (<-done).ExitCode != 0 || at("behind") != tip {
		t.Errorf("after the yes it is at %s", at("behind"))
	}

	theirs := w.git(w.user, "commit-tree", "main^{tree}", "-p", "main", "-m", "the user's")
	w.git(w.user, "branch", "theirs", theirs)
	if env := w.landAs(tip, "theirs", false); env.ExitCode != wire.ExitFailed || !strings.Contains(env.Stderr, "--force") {
		t.Errorf("not a fast-forward, without force: %+v", env)
	}
	a, done = w.asked(tip, "theirs", true)
	if u := a.Land.Update; string(u.Old) != theirs || u.Facts.FastForward {
		t.Errorf("the question shows %+v", u)
	}
	if _, err := user.Answer(t.Context(), wire.Answer{ID: a.ID, Answer: "n", Digest: a.Digest}); err != nil {
		t.Fatal(err)
	}
	if env := <-done; env.ExitCode != wire.ExitDenied || at("theirs") != theirs {
		t.Errorf("after the no: %+v, at %s", env, at("theirs"))
	}

	for _, force := range []bool{false, true} {
		if env := w.landAs(tip, "main", force); env.ExitCode != wire.ExitFailed || at("main") != base {
			t.Errorf("the branch that the user works on: %+v, at %s", env, at("main"))
		}
	}
	if env := w.landAs(tip, "agentbox/other", true); env.ExitCode != wire.ExitRefused || at("agentbox/other") != "" {
		t.Errorf("another box's name: %+v", env)
	}
	// A local branch of this name would be found in place of the remote's.
	a, done = w.asked(tip, "origin/main", false)
	if _, err := user.Answer(t.Context(), wire.Answer{ID: a.ID, Answer: "n", Digest: a.Digest}); err != nil {
		t.Fatal(err)
	}
	if env := <-done; env.ExitCode != wire.ExitDenied || at("origin/main") != "" {
		t.Errorf("a name like the remote's branch: %+v", env)
	}
}
