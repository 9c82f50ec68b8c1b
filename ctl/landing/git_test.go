package landing

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/madarco/agentbox/core"
)

// bench is a box's repository and a relay made of git's own HTTP backend.
type bench struct {
	t        testing.TB
	work     string
	gate     string
	endpoint string
	// received gets a word after each push that the relay answered.
	received chan struct{}
	down     atomic.Bool
}

func newBench(t testing.TB, initArgs ...string) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t, work: filepath.Join(dir, "work"), gate: filepath.Join(dir, "gate.git"), received: make(chan struct{}, 100)}
	b.git("", append([]string{"init", "-q", "--bare", b.gate}, initArgs...)...)
	b.git("", "-C", b.gate, "config", "http.receivepack", "true")
	b.git("", append([]string{"init", "-q", "-b", string(branchName), b.work}, initArgs...)...)
	exec, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(exec)), "git-http-backend"),
		Env:    []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=box", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"},
		Stderr: io.Discard,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		if err := unchunk(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		backend.ServeHTTP(w, r)
		if r.Method == http.MethodPost {
			b.received <- struct{}{}
		}
	}))
	t.Cleanup(server.Close)
	b.endpoint = server.URL + "/gate.git"
	return b
}

// unchunk gives a request the length that CGI wants to know.
func unchunk(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	return nil
}

// git runs git for the agent or for the relay's side, and returns what it says.
func (b *bench) git(stdin string, args ...string) string {
	b.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (b *bench) commit(branch string) core.ObjectID {
	b.t.Helper()
	tree := b.git("", "-C", b.work, "mktree", "--missing")
	if tree == "" {
		b.t.Fatal("no tree")
	}
	args := []string{"-C", b.work, "commit-tree", "-m", "work on " + branch, tree}
	if parent, err := exec.Command("git", "-C", b.work, "rev-parse", "-q", "--verify", "refs/heads/"+branch).Output(); err == nil {
		args = append(args, "-p", strings.TrimSpace(string(parent)))
	}
	oid := b.git("", args...)
	b.git("", "-C", b.work, "update-ref", "refs/heads/"+branch, oid)
	return core.ObjectID(oid)
}

// start lands the branches until the test ends.
func (b *bench) start(branches ...core.BranchName) *Watcher {
	b.t.Helper()
	w := NewWatcher(Repo{Key: "k", Path: core.BoxPath(b.work), Endpoint: b.endpoint, Branches: branches}, log.New(io.Discard, "", 0))
	ctx, cancel := context.WithCancel(context.Background())
	go w.Run(ctx)
	b.t.Cleanup(func() { cancel(); <-w.ended })
	return w
}

// landed waits until the relay holds the tip.
func (b *bench) landed(branch string, want core.ObjectID) {
	b.t.Helper()
	for {
		select {
		case <-b.received:
		case <-b.t.Context().Done():
			b.t.Fatal("the tip never landed")
		}
		out, err := exec.Command("git", "-C", b.gate, "rev-parse", "-q", "--verify", "refs/agentbox/landing/"+branch).Output()
		if err == nil && strings.TrimSpace(string(out)) == string(want) {
			return
		}
	}
}

func TestCommitsOfTheNamedBranchesLand(t *testing.T) {
	b := newBench(t)
	b.commit("other")
	first := b.commit(string(branchName))
	b.start(branchName, "sanctioned")
	b.landed(string(branchName), first)
	b.landed(string(branchName), b.commit(string(branchName)))

	// The folder of the branch goes and comes.
	b.git("", "-C", b.work, "pack-refs", "--all", "--prune")
	b.landed(string(branchName), b.commit(string(branchName)))

	// A rewrite, and a branch that is born later.
	b.git("", "-C", b.work, "update-ref", "refs/heads/"+string(branchName), string(first))
	b.landed(string(branchName), first)
	b.landed("sanctioned", b.commit("sanctioned"))

	if refs := b.git("", "-C", b.gate, "for-each-ref", "--format=%(refname)"); strings.Contains(refs, "other") || strings.Contains(refs, "heads") {
		t.Errorf("the relay got more than the named branches: %s", refs)
	}
}

func TestCommitsOfASHA256RepositoryLand(t *testing.T) {
	b := newBench(t, "--object-format=sha256")
	first := b.commit(string(branchName))
	b.start(branchName)
	b.landed(string(branchName), first)
	b.landed(string(branchName), b.commit(string(branchName)))
}

func TestARepositoryThatIsMadeAnewIsWatchedAgain(t *testing.T) {
	b := newBench(t)
	first := b.commit(string(branchName))
	b.start(branchName)
	b.landed(string(branchName), first)
	if err := os.RemoveAll(b.work); err != nil {
		t.Fatal(err)
	}
	b.git("", "init", "-q", "-b", string(branchName), b.work)
	b.git("", "-C", b.work, "config", "core.quotePath", "false")
	b.commit("other") // so that the two first commits differ
	tree := b.git("", "-C", b.work, "mktree")
	oid := b.git("", "-C", b.work, "commit-tree", "-m", "anew", tree)
	b.git("", "-C", b.work, "update-ref", branchName.Ref(), oid)
	b.landed(string(branchName), core.ObjectID(oid))
}

func TestTheAgentsHooksAndConfigurationHaveNoPartInLanding(t *testing.T) {
	b := newBench(t)
	mark := filepath.Join(b.work, "hook-ran")
	hooks := filepath.Join(b.work, ".hooks")
	if err := os.MkdirAll(hooks, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{hooks, filepath.Join(b.work, ".git", "hooks")} {
		if err := os.WriteFile(filepath.Join(dir, "pre-push"), []byte("#!/bin/sh\ntouch "+mark+"\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{
		"core.hooksPath": hooks, "http.proxy": "http://127.0.0.1:1", "push.gpgSign": "true",
		"push.followTags": "true", "push.recurseSubmodules": "only", "credential.helper": "!touch " + mark,
	} {
		b.git("", "-C", b.work, "config", name, value)
	}
	tip := b.commit(string(branchName))
	b.git("", "-C", b.work, "tag", "-a", "-m", "t", "v1", string(tip))
	b.start(branchName)
	b.landed(string(branchName), tip)
	if _, err := os.Stat(mark); err == nil {
		t.Error("a hook or helper of the agent ran")
	}
	if refs := b.git("", "-C", b.gate, "for-each-ref", "refs/tags"); refs != "" {
		t.Errorf("tags went along: %s", refs)
	}
}

func TestTheRelaysRefusalIsKeptWithItsReason(t *testing.T) {
	b := newBench(t)
	b.git("", "-C", b.gate, "config", "receive.denyDeletes", "false")
	b.git("", "-C", b.gate, "config", "transfer.hideRefs", "refs/agentbox")
	b.commit(string(branchName))
	w := b.start(branchName)
	states, err := w.Land(t.Context())
	if err != nil || states[0].Phase != Refused || !strings.Contains(states[0].Problem, "hidden") {
		t.Errorf("Land = %+v, %v", states, err)
	}
	b.git("", "-C", b.gate, "config", "--unset", "transfer.hideRefs")
	states, err = w.Land(t.Context())
	if err != nil || states[0].Phase != Landed || states[0].Problem != "" {
		t.Errorf("Land = %+v, %v", states, err)
	}
}

func TestADeadRelayLeavesTheTipPending(t *testing.T) {
	b := newBench(t)
	b.down.Store(true)
	tip := b.commit(string(branchName))
	w := b.start(branchName)
	states, err := w.Land(t.Context())
	if err != nil || states[0].Phase != Pending || !strings.HasSuffix(states[0].Problem, ": down") {
		t.Errorf("Land = %+v, %v", states, err)
	}
	b.down.Store(false)
	b.landed(string(branchName), tip)
}

// BenchmarkCommitToLanded is the time from a commit to the relay's answer; its
// floor is the same push by hand.
func BenchmarkCommitToLanded(b *testing.B) {
	bench := newBench(b)
	first := bench.commit(string(branchName))
	bench.start(branchName)
	bench.landed(string(branchName), first)
	b.Run("landed", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			tip := bench.commit(string(branchName))
			b.StartTimer()
			bench.landed(string(branchName), tip)
		}
	})
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			bench.commit("by-hand")
			b.StartTimer()
			bench.git("", "-C", bench.work, "push", "-q", bench.endpoint, "by-hand")
			<-bench.received
		}
	})
}

func TestListKeepsTheRepositories(t *testing.T) {
	dir := t.TempDir()
	if repos, err := ReadList(dir); repos != nil || err != nil {
		t.Errorf("no list reads as %v, %v", repos, err)
	}
	want := Repo{Key: "k", Path: "/workspace", Endpoint: "http://e", Base: oid(1), Branches: []core.BranchName{"a", "b"}}
	if err := WriteList(dir, []Repo{want}); err != nil {
		t.Fatal(err)
	}
	got, err := ReadList(dir)
	if err != nil || len(got) != 1 || got[0].Path != want.Path || len(got[0].Branches) != 2 {
		t.Errorf("ReadList = %+v, %v", got, err)
	}
}
