package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/gitgate"
	"github.com/madarco/agentbox/relay/server"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/memory"
)

// world is a user's repository with a remote, a relay with the real gate, and
// a clone that reaches the relay as a box does: by its socket, with its token.
type world struct {
	t                        *testing.T
	remote, user, clone, url string
	gates                    *gitgate.Host
	st                       *memory.Store
	srv                      *server.Server
	box                      core.Box
	env                      []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	root, err := os.MkdirTemp("", "abx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	w := &world{t: t, remote: filepath.Join(root, "remote.git"), user: filepath.Join(root, "user"), clone: filepath.Join(root, "clone"), st: memory.New(memory.Options{})}
	w.env = append(os.Environ(), "HOME="+root, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	w.git(root, "init", "-q", "--bare", "-b", "main", w.remote)
	w.git(root, "init", "-q", "-b", "main", w.user)
	w.commit(w.user, "one")
	w.git(w.user, "remote", "add", "origin", w.remote)
	w.git(w.user, "push", "-q", "-u", "origin", "main")

	home := core.Home(filepath.Join(root, "h"))
	gates, err := gitgate.New(home, gitgate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.gates = gates
	repo, err := gates.Open(t.Context(), w.user)
	if err != nil {
		t.Fatal(err)
	}
	if err := gates.RefreshSeed(t.Context(), repo); err != nil {
		t.Fatal(err)
	}
	record := repo.Record("agentbox/one")
	record.Kind, record.BoxPath = "root", core.WorkspacePath
	w.box = core.Box{ID: "b00000001", Name: "one", Repos: []core.Repo{record}}
	srv := server.New(server.Config{Home: home, Store: w.st, Gates: gates, Policy: policy.Settings{Safe: true}, Log: slog.New(slog.NewTextHandler(testLog{t}, nil))})
	t.Cleanup(func() {
		srv.Close(context.WithoutCancel(t.Context()))
		gates.Settle()
		_ = w.st.Close()
	})
	w.srv = srv
	token := core.NewToken()
	if _, err := w.st.RegisterBox(t.Context(), w.box, store.HashToken(token)); err != nil {
		t.Fatal(err)
	}
	if err := srv.OpenChannel(w.box); err != nil {
		t.Fatal(err)
	}
	w.url = forward(t, home.RelaySocket(w.box.ID), token) + "/git/" + record.Key
	w.git(root, "clone", "-q", w.url, w.clone)
	w.git(w.clone, "checkout", "-q", "-b", "agentbox/one")
	return w
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	if l.t.Context().Err() == nil { // nobody reads it after the test
		l.t.Logf("relay: %s", p)
	}
	return len(p), nil
}

// forward does what the daemon in a box does: it adds the token.
func forward(t *testing.T, socket, token string) string {
	t.Helper()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "relay"
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}},
	}
	srv := httptest.NewServer(proxy)
	t.Cleanup(srv.Close)
	return srv.URL
}

func (w *world) cmd(dir string, args ...string) *exec.Cmd {
	c := exec.Command("git", args...)
	c.Dir, c.Env = dir, w.env
	return c
}

func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	out, err := w.cmd(dir, args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *world) commit(dir, text string) string {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	w.git(dir, "add", "file")
	w.git(dir, "commit", "-q", "-m", text)
	return w.git(dir, "rev-parse", "HEAD")
}

// parked runs a push that must be asked about, and calls answer with the
// question once the pusher has been told of it. It returns the output.
func (w *world) parked(answer func(wire.Approval), args ...string) (string, error) {
	w.t.Helper()
	push := w.cmd(w.clone, append([]string{"push"}, args...)...)
	stderr, err := push.StderrPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := push.Start(); err != nil {
		w.t.Fatal(err)
	}
	var out strings.Builder
	lines := bufio.NewScanner(io.TeeReader(stderr, &out))
	for lines.Scan() {
		if _, id, ok := strings.Cut(lines.Text(), "agentbox agent approve "); ok {
			a, err := w.st.Approval(w.t.Context(), strings.TrimSpace(id))
			if err != nil {
				w.t.Error(err)
			}
			answer(a.Approval)
		}
	}
	return out.String(), push.Wait()
}

func (w *world) reply(a wire.Approval, yes bool, note string) {
	w.t.Helper()
	if _, err := w.st.AnswerApproval(w.t.Context(), a.ID, store.Reply{Yes: yes, By: "operator", Note: note, Digest: a.Digest}); err != nil {
		w.t.Error(err)
	}
}

func TestTheLifeOfAPush(t *testing.T) {
	w := newWorld(t)
	own := w.commit(w.clone, "from the box")

	w.git(w.clone, "push", "-q", w.url, "+HEAD:refs/agentbox/landing/agentbox/one")
	if got := w.git(w.user, "rev-parse", "agentbox/one"); got != own {
		t.Errorf("landed %s; want %s", got, own)
	}
	w.git(w.clone, "push", "-q", "-u", "origin", "HEAD")
	if got := w.git(w.remote, "rev-parse", "agentbox/one"); got != own {
		t.Errorf("pushed %s; want %s", got, own)
	}
	w.gates.Settle()
	if got := w.git(w.user, "rev-parse", "refs/remotes/origin/agentbox/one"); got != own {
		t.Errorf("the user's view of the remote is %s; want %s", got, own)
	}

	before := w.git(w.remote, "rev-parse", "main")
	out, err := w.parked(func(a wire.Approval) {
		if want := fmt.Sprintf("push main %s..%s (1 commit, 1 file) to origin", before[:7], own[:7]); !strings.HasPrefix(a.Message, want) {
			t.Errorf("message is %q; want %q", a.Message, want)
		}
		if n := len(a.Push.Updates); n != 1 || string(a.Push.Updates[0].Old) != before || string(a.Push.Updates[0].New) != own {
			t.Errorf("the question is about %+v", a.Push)
		}
		w.reply(a, false, "not on a Friday")
	}, "origin", "HEAD:main")
	if err == nil || !strings.Contains(out, "denied by the user: not on a Friday") {
		t.Errorf("denied push: %v\n%s", err, out)
	}
	if got := w.git(w.remote, "rev-parse", "main"); got != before {
		t.Errorf("main moved to %s", got)
	}
	if out, err := w.parked(func(a wire.Approval) { w.reply(a, true, "") }, "origin", "HEAD:main"); err != nil {
		t.Errorf("approved push: %v\n%s", err, out)
	}
	if got := w.git(w.remote, "rev-parse", "main"); got != own {
		t.Errorf("main is at %s; want %s", got, own)
	}

	w.git(w.clone, "commit", "-q", "--amend", "-m", "again")
	w.git(w.clone, "push", "-q", "--force-with-lease", "origin", "HEAD")
	if got, want := w.git(w.remote, "rev-parse", "agentbox/one"), w.git(w.clone, "rev-parse", "HEAD"); got != want {
		t.Errorf("rewritten to %s; want %s", got, want)
	}
	if _, err := store.VerifyAudit(t.Context(), w.st, store.Head{}); err != nil {
		t.Error(err)
	}
}

func TestFetchBringsTheRemoteAndTheUsersBranch(t *testing.T) {
	for version := range 3 {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			w := newWorld(t)
			w.env = append(w.env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.version", fmt.Sprintf("GIT_CONFIG_VALUE_0=%d", version))
			pushed := w.commit(w.user, "two")
			w.git(w.user, "push", "-q", "origin", "main")
			unpushed := w.commit(w.user, "three")
			w.git(w.user, "branch", "private")
			w.git(w.clone, "fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*", "+refs/agentbox/host/*:refs/remotes/host/*")
			if got := w.git(w.clone, "rev-parse", "origin/main"); got != pushed {
				t.Errorf("origin/main is %s; want %s", got, pushed)
			}
			if got := w.git(w.clone, "rev-parse", "host/main"); got != unpushed {
				t.Errorf("host/main is %s; want %s", got, unpushed)
			}
			if out := w.git(w.clone, "ls-remote", "origin"); strings.Contains(out, "private") || strings.Contains(out, "landing") {
				t.Errorf("the box sees too much:\n%s", out)
			}
		})
	}
}

func TestLeaseOfTheShownValueHolds(t *testing.T) {
	w := newWorld(t)
	w.commit(w.clone, "from the box")
	var theirs string
	out, err := w.parked(func(a wire.Approval) {
		theirs = w.commit(w.user, "somebody else")
		w.git(w.user, "push", "-q", "origin", "main")
		w.reply(a, true, "")
	}, "origin", "HEAD:main")
	if err == nil || !strings.Contains(out, "somebody else has moved it on the remote") {
		t.Errorf("push over another's commit: %v\n%s", err, out)
	}
	if got := w.git(w.remote, "rev-parse", "main"); got != theirs {
		t.Errorf("main is at %s; want %s", got, theirs)
	}
}

func TestRemoteThatIsGoneIsAReasonNotAPassword(t *testing.T) {
	w := newWorld(t)
	w.commit(w.clone, "from the box")
	if err := os.Rename(w.remote, w.remote+".away"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"fetch", "origin"}, {"push", "origin", "HEAD"}} {
		out, err := w.cmd(w.clone, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "does not appear to be a git repository") {
			t.Errorf("git %v: %v\n%s", args, err, out)
		}
	}
}

func TestWhatABoxMayNotPush(t *testing.T) {
	w := newWorld(t)
	w.commit(w.clone, "from the box")
	before := w.git(w.remote, "for-each-ref")
	userBefore := w.git(w.user, "for-each-ref")
	for name, args := range map[string][]string{
		"a delete":               {"origin", ":main"},
		"a note":                 {"origin", "HEAD:refs/notes/x"},
		"the seed's refs":        {"origin", "HEAD:refs/seed/keep/x"},
		"another box's landing":  {"origin", "HEAD:refs/agentbox/landing/agentbox/two"},
		"main as a landing":      {"origin", "HEAD:refs/agentbox/landing/main"},
		"an undone landing":      {"origin", ":refs/agentbox/landing/agentbox/one"},
		"a landing with a push":  {"origin", "HEAD:refs/agentbox/landing/agentbox/one", "HEAD:agentbox/one"},
		"an atomic landing":      {"--atomic", "origin", "HEAD:refs/agentbox/landing/agentbox/one"},
		"the user's own branch":  {"origin", "HEAD:refs/agentbox/host/main"},
		"a ref that git forbids": {"origin", "HEAD:refs/heads/-x"},
	} {
		if out, err := w.cmd(w.clone, append([]string{"push"}, args...)...).CombinedOutput(); err == nil {
			t.Errorf("%s went through:\n%s", name, out)
		}
	}
	if after := w.git(w.remote, "for-each-ref"); after != before {
		t.Errorf("the remote changed:\n%s\n%s", before, after)
	}
	if after := w.git(w.user, "for-each-ref"); after != userBefore {
		t.Errorf("the user's repository changed:\n%s\n%s", userBefore, after)
	}
}
