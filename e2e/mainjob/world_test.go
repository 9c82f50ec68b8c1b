package mainjob

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/e2e/gitremote"
)

const (
	remoteUser     = "dev"
	remotePassword = "canary-5d0f2c77-never-in-a-box"
	remoteRepo     = "project.git"
)

// limit bounds every command of the suite, imageLimit one that may have to
// build the box image from nothing.
const (
	limit      = 2 * time.Minute
	imageLimit = 15 * time.Minute
)

// world is one user's machine: a home, a project with a remote, the command.
type world struct {
	t        *testing.T
	agentbox string
	home     string
	project  string
	box      string // names of containers are the engine's, so each world has its own
	branch   string
	remote   *gitremote.Remote
	url      string
}

type result struct {
	out, err string
	code     int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	needEngine(t)
	bin, err := filepath.Abs("../../bin/agentbox")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("%v; run scripts/build first", err)
	}
	// A socket path has little room, so the home is not below t.TempDir.
	home, err := os.MkdirTemp("", "abx")
	if err != nil {
		t.Fatal(err)
	}
	box := "e2e-" + core.NewBoxID()
	w := &world{t: t, agentbox: bin, home: home, project: filepath.Join(t.TempDir(), "shop"), box: box, branch: core.BranchPrefix + box}
	w.startRemote()
	w.makeProject()
	t.Cleanup(w.close)
	return w
}

// needEngine skips where no engine answers, and fails there in CI.
func needEngine(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("docker", "info", "--format", "{{.ServerVersion}}").CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no engine answers: %s", out)
		}
		t.Skipf("no engine answers; scripts/engine starts one: %s", out)
	}
}

func (w *world) startRemote() {
	w.t.Helper()
	w.remote = gitremote.New(gitremote.Options{Root: w.t.TempDir(), User: remoteUser, Password: remotePassword})
	if err := w.remote.Create(w.t.Context(), remoteRepo); err != nil {
		w.t.Fatal(err)
	}
	server := httptest.NewServer(w.remote)
	w.t.Cleanup(w.remote.Close)
	w.t.Cleanup(server.Close)
	w.url = server.URL + "/" + remoteRepo
}

// makeProject makes a repository with a remote whose password only a
// credential helper of the user knows.
func (w *world) makeProject() {
	w.t.Helper()
	store := filepath.Join(w.t.TempDir(), "credentials")
	line := strings.Replace(w.url, "http://", "http://"+remoteUser+":"+remotePassword+"@", 1)
	w.write(store, line+"\n")
	w.must(exec.Command("git", "init", "-q", "-b", "main", w.project))
	for _, kv := range [][2]string{{"user.name", "Dev"}, {"user.email", "dev@example.test"}, {"credential.helper", "store --file=" + store}} {
		w.git("config", kv[0], kv[1])
	}
	w.write(filepath.Join(w.project, "README.md"), "# shop\n")
	w.write(filepath.Join(w.project, "src/app.txt"), "one\n")
	w.git("add", ".")
	w.git("commit", "-qm", "start the shop")
	w.git("remote", "add", "origin", w.url)
	w.git("push", "-q", "-u", "origin", "main")
	w.git("remote", "set-head", "origin", "main")
}

func (w *world) close() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var boxes []struct{ Name string }
	if err := json.Unmarshal([]byte(w.runContext(ctx, nil, "list", "--all", "--json").out), &boxes); err != nil {
		w.t.Errorf("list boxes for clean-up: %v", err)
	}
	for _, b := range boxes {
		if r := w.runContext(ctx, nil, "destroy", "--force", b.Name); r.code != 0 {
			w.t.Errorf("destroy %s: %s", b.Name, r.err)
		}
	}
	if r := w.runContext(ctx, nil, "relay", "stop"); r.code != 0 {
		w.t.Errorf("stop the relay: %s", r.err)
	}
	if w.t.Failed() {
		log, _ := os.ReadFile(filepath.Join(w.home, "relay.log"))
		w.t.Logf("relay.log:\n%s", log)
	}
	if err := os.RemoveAll(w.home); err != nil {
		w.t.Error(err)
	}
}

// run runs agentbox in the project and returns whatever it did.
func (w *world) run(args ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	return w.runContext(ctx, nil, args...)
}

func (w *world) runContext(ctx context.Context, stdin io.Reader, args ...string) result {
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, w.agentbox, args...)
	cmd.Dir, cmd.Env = w.project, w.environ()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errOut
	err := cmd.Run()
	r := result{out: out.String(), err: errOut.String(), code: cmd.ProcessState.ExitCode()}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		r.err += err.Error()
	}
	return r
}

func (w *world) environ() []string {
	return append(os.Environ(), "AGENTBOX_HOME="+w.home, "NO_COLOR=1")
}

// ok runs agentbox and fails the test unless it succeeds.
func (w *world) ok(args ...string) result {
	w.t.Helper()
	r := w.run(args...)
	w.succeeded(r, args)
	return r
}

// create makes the world's box.
func (w *world) create() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), imageLimit)
	defer cancel()
	args := []string{"create", "--image", "lean", "--name", w.box}
	w.succeeded(w.runContext(ctx, nil, args...), args)
}

func (w *world) succeeded(r result, args []string) {
	w.t.Helper()
	if r.code != 0 {
		w.t.Fatalf("agentbox %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
}

// inBox runs a shell script in the box.
func (w *world) inBox(script string) result {
	w.t.Helper()
	return w.run("shell", w.box, "--", "sh", "-c", "cd /workspace && "+script)
}

// inBoxOK is inBox for a script that must succeed.
func (w *world) inBoxOK(script string) string {
	w.t.Helper()
	r := w.inBox(script)
	if r.code != 0 {
		w.t.Fatalf("in the box: %s\nexit %d\n%s%s", script, r.code, r.out, r.err)
	}
	return strings.TrimSpace(r.out)
}

// answer runs `agent approve` on a terminal, as a person would.
func (w *world) answer(id string, flags ...string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.agentbox, append([]string{"agent", "approve", id}, flags...)...)
	cmd.Dir, cmd.Env = w.project, w.environ()
	tty, err := pty.Start(cmd)
	if err != nil {
		w.t.Fatal(err)
	}
	defer tty.Close()
	screen, _ := io.ReadAll(tty) // a terminal whose other side is gone reads EIO
	if err := cmd.Wait(); err != nil {
		w.t.Fatalf("agent approve %s: %v\n%s", id, err, screen)
	}
}

// git runs git in the user's repository and returns what it printed.
func (w *world) git(args ...string) string {
	w.t.Helper()
	return w.must(exec.Command("git", append([]string{"-C", w.project}, args...)...))
}

// remoteHas is the commit of a branch on the remote, "" if there is none.
func (w *world) remoteHas(branch string) string {
	out, err := exec.Command("git", "-C", w.remote.Path(remoteRepo), "rev-parse", "--verify", "--quiet", "refs/heads/"+branch).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func (w *world) must(cmd *exec.Cmd) string {
	w.t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *world) write(path, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// landed waits until the user's branch is at the commit, and tells when it was
// first seen there.
func (w *world) landed(branch, oid string) time.Time {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	at, err := seeRef(ctx, filepath.Join(w.project, ".git/refs/heads", branch), oid)
	if err != nil {
		w.t.Fatalf("%s has not landed: %v", oid, err)
	}
	return at
}

// seeRef watches a loose ref until it holds the id.
func seeRef(ctx context.Context, path, oid string) (time.Time, error) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if data, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(data)) == oid {
			return time.Now(), nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%s: %w", path, ctx.Err())
		case <-tick.C:
		}
	}
}
