package gitgate_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay"
)

// plant puts a program into a folder of its own.
func plant(t *testing.T, name, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	check(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755)) //nolint:gosec // a program
	return path
}

// reach fetches and pushes, and returns what came of either.
func (w *world) reach() map[string]error {
	w.t.Helper()
	fetched := w.gate.Refresh(w.t.Context())
	url, err := w.gate.RemoteURL(w.t.Context())
	check(w.t, err)
	u := policy.RefUpdate{Ref: ownBranch.Ref(), New: w.record.BaseOID}
	_, pushed := w.gate.Push(w.t.Context(), relay.PushRequest{URL: url, Updates: []policy.RefUpdate{u}}, func(int) error { return nil })
	return map[string]error{"fetch": fetched, "push": pushed}
}

// TestNobodyIsAskedForAPassword: whoever started the relay in an editor's
// terminal has left a program to ask with in its environment.
func TestNobodyIsAskedForAPassword(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "asked")
	ask := plant(t, "ask", "touch '"+marker+"'; echo secret")
	for _, name := range []string{"GIT_ASKPASS", "SSH_ASKPASS"} {
		t.Setenv(name, ask)
	}
	t.Setenv("DISPLAY", ":0")
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer locked.Close()
	w := newWorld(t)
	w.user.git("remote", "set-url", "origin", locked.URL+"/x.git")
	for what, err := range w.reach() {
		if !errors.Is(err, relay.ErrRemote) || !strings.Contains(err.Error(), "could not read Username") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Lstat(marker); err == nil {
		t.Error("a program was started to ask")
	}
	// A helper of the user's own still answers.
	w.user.git("config", "credential.helper", "!f() { echo username=u; echo password=p; touch '"+marker+"'; }; f")
	_ = w.reach()
	if _, err := os.Lstat(marker); err != nil {
		t.Error("the user's credential helper was not asked")
	}
}

// TestAnUnknownHostKeyIsAReason: ssh must neither ask nor be asked through a
// window, and says itself what is wrong.
func TestAnUnknownHostKeyIsAReason(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	ssh := plant(t, "ssh", `{ echo "$@"; env | grep ASKPASS; } >>'`+log+`'; echo 'Host key verification failed.' >&2; exit 255`)
	t.Setenv("PATH", filepath.Dir(ssh)+":"+os.Getenv("PATH"))
	t.Setenv("SSH_ASKPASS", "/bin/true")
	t.Setenv("SSH_AUTH_SOCK", "/run/agent.sock")
	w := newWorld(t)
	w.user.git("remote", "set-url", "origin", "git@example.invalid:acme/shop.git")
	for what, err := range w.reach() {
		if !errors.Is(err, relay.ErrRemote) || !strings.Contains(err.Error(), "Host key verification failed") {
			t.Errorf("%s: %v", what, err)
		}
	}
	text, err := os.ReadFile(log)
	check(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "ASKPASS") || !strings.Contains(line, "-o BatchMode=yes -o ConnectTimeout=") {
			t.Errorf("ssh ran with %q", line)
		}
	}
	if len(text) == 0 {
		t.Error("ssh did not run")
	}
}

// TestASilentRemoteIsGivenUp with the user's own, shorter patience.
func TestASilentRemoteIsGivenUp(t *testing.T) {
	t.Parallel()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	w := newWorld(t)
	w.user.git("config", "http.lowSpeedLimit", "1")
	w.user.git("config", "http.lowSpeedTime", "1")
	w.user.git("remote", "set-url", "origin", silent.URL+"/x.git")
	for what, err := range w.reach() {
		if !errors.Is(err, relay.ErrRemote) || !strings.Contains(err.Error(), "too slow") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestWhatTheRemoteHasIsChecked: old mistakes pass, what turns on the user at a
// checkout does not reach the seed that all boxes read.
func TestWhatTheRemoteHasIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fetch := func(branch string, id core.ObjectID) error {
		w.remote.git("fetch", "-q", w.user.dir, "+"+string(id)+":refs/heads/"+branch)
		err := w.gate.Refresh(t.Context())
		w.remote.git("update-ref", "-d", "refs/heads/"+branch)
		return err
	}
	w.user.git("config", "uploadpack.allowAnySHA1InWant", "true")
	tree := string(w.user.id("HEAD^{tree}"))
	old := core.ObjectID(w.user.feed("tree "+tree+"\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +51800\n\nold\n", "hash-object", "-t", "commit", "-w", "--literally", "--stdin"))
	if err := fetch("old", old); err != nil || !w.seed().has(old) {
		t.Errorf("a bad timezone: %v", err)
	}
	trap := w.user.tree(entry("100644", ".git", core.ObjectID(w.user.feed("x", "hash-object", "-w", "--stdin"))))
	if err := fetch("trap", trap); !errors.Is(err, relay.ErrRemote) || w.seed().has(trap) {
		t.Errorf("a tree with .git: %v", err)
	}
}
