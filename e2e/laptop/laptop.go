// Package laptop is one user's machine in an end-to-end test: a home, a project
// with a remote that asks for a password, and the built agentbox command, which
// is driven as a person drives it.
//
// Invariants:
//   - What the user has lies below Home, and nothing else of the test does. The
//     remote and its password lie elsewhere.
//   - At the end of a test every box of the machine is gone and its relay has
//     stopped.
package laptop

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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/e2e/gitremote"
)

// What the remote asks for, and the repository that it has.
const (
	RemoteUser     = "dev"
	RemotePassword = "canary-5d0f2c77-never-in-a-box"
	RemoteRepo     = "project.git"
)

// Limit bounds every command, imageLimit one that may have to build the box
// image from nothing.
const (
	Limit      = 2 * time.Minute
	imageLimit = 15 * time.Minute
)

// Laptop is the machine.
type Laptop struct {
	T *testing.T
	// Home is the user's HOME, with AgentBox's state folder in it.
	Home    string
	Project string
	// Box is the name that Create gives, and Branch its branch. Names of
	// containers are the engine's, so each machine has its own.
	Box    string
	Branch string
	Remote *gitremote.Remote
	URL    string // of the project's remote

	agentbox string
	env      []string
}

// Result is how a command ended.
type Result struct {
	Out, Err string
	Code     int
}

// New makes a machine with a project that has been pushed. env is added to the
// user's environment. It skips the test where no engine answers, and fails it
// there in CI.
func New(t *testing.T, env ...string) *Laptop {
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
	l := &Laptop{T: t, agentbox: bin, Home: home, Project: filepath.Join(home, "src", "shop"), Box: box, Branch: core.BranchPrefix + box}
	l.env = slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "HOME=") || strings.HasPrefix(entry, "AGENTBOX_HOME=")
	})
	l.env = append(append(l.env, "HOME="+home, "NO_COLOR=1"), env...)
	t.Cleanup(l.close)
	l.startRemote()
	l.makeProject()
	return l
}

func needEngine(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "docker", "info", "--format", "{{.ServerVersion}}").CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no engine answers: %s", out)
		}
		t.Skipf("no engine answers; scripts/engine starts one: %s", out)
	}
}

func (l *Laptop) startRemote() {
	l.T.Helper()
	l.Remote = gitremote.New(gitremote.Options{Root: l.T.TempDir(), User: RemoteUser, Password: RemotePassword})
	if err := l.Remote.Create(l.T.Context(), RemoteRepo); err != nil {
		l.T.Fatal(err)
	}
	server := httptest.NewServer(l.Remote)
	l.T.Cleanup(l.Remote.Close)
	l.T.Cleanup(server.Close)
	l.URL = server.URL + "/" + RemoteRepo
}

// Authed is the remote's URL with the password in it, for a colleague.
func (l *Laptop) Authed() string {
	return strings.Replace(l.URL, "http://", "http://"+RemoteUser+":"+RemotePassword+"@", 1)
}

// makeProject makes a repository with a remote whose password only a
// credential helper of the user knows.
func (l *Laptop) makeProject() {
	l.T.Helper()
	store := filepath.Join(l.T.TempDir(), "credentials")
	l.Write(store, l.Authed()+"\n")
	l.Must(exec.Command("git", "init", "-q", "-b", "main", l.Project))
	for _, kv := range [][2]string{{"user.name", "Dev"}, {"user.email", "dev@example.test"}, {"credential.helper", "store --file=" + store}} {
		l.Git("config", kv[0], kv[1])
	}
	l.Write(filepath.Join(l.Project, "README.md"), "# shop\n")
	l.Write(filepath.Join(l.Project, "src/app.txt"), "one\n")
	l.Git("add", ".")
	l.Git("commit", "-qm", "start the shop")
	l.Git("remote", "add", "origin", l.URL)
	l.Git("push", "-q", "-u", "origin", "main")
	l.Git("remote", "set-head", "origin", "main")
}

func (l *Laptop) close() {
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	var boxes []struct{ Name string }
	if err := json.Unmarshal([]byte(l.RunContext(ctx, nil, "list", "--all", "--json").Out), &boxes); err != nil {
		l.T.Errorf("list boxes for clean-up: %v", err)
	}
	for _, b := range boxes {
		if r := l.RunContext(ctx, nil, "destroy", "--force", b.Name); r.Code != 0 {
			l.T.Errorf("destroy %s: %s", b.Name, r.Err)
		}
	}
	if r := l.RunContext(ctx, nil, "relay", "stop"); r.Code != 0 {
		l.T.Errorf("stop the relay: %s", r.Err)
	}
	if l.T.Failed() {
		log, _ := os.ReadFile(core.Home(l.State()).RelayLog())
		l.T.Logf("relay.log:\n%s", log)
	}
	if err := os.RemoveAll(l.Home); err != nil {
		l.T.Error(err)
	}
}

// State is AgentBox's folder.
func (l *Laptop) State() string { return filepath.Join(l.Home, ".agentbox") }

// Environ is the environment of the user's commands.
func (l *Laptop) Environ() []string { return l.env }

// Run runs agentbox in the project and returns whatever it did.
func (l *Laptop) Run(args ...string) Result {
	l.T.Helper()
	ctx, cancel := context.WithTimeout(l.T.Context(), Limit)
	defer cancel()
	return l.RunContext(ctx, nil, args...)
}

// RunContext is Run with an input, and with a bound of the caller's.
func (l *Laptop) RunContext(ctx context.Context, stdin io.Reader, args ...string) Result {
	var out, errOut bytes.Buffer
	cmd := l.command(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errOut
	err := cmd.Run()
	r := Result{Out: out.String(), Err: errOut.String(), Code: -1}
	if cmd.ProcessState != nil {
		r.Code = cmd.ProcessState.ExitCode()
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		r.Err += err.Error()
	}
	return r
}

func (l *Laptop) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, l.agentbox, args...)
	cmd.Dir, cmd.Env = l.Project, l.env
	return cmd
}

// OK runs agentbox and fails the test unless it succeeds.
func (l *Laptop) OK(args ...string) Result {
	l.T.Helper()
	r := l.Run(args...)
	l.succeeded(r, args)
	return r
}

// Prepare makes sure that the engine has the lean image.
func (l *Laptop) Prepare() {
	l.T.Helper()
	ctx, cancel := context.WithTimeout(l.T.Context(), imageLimit)
	defer cancel()
	args := []string{"prepare", "--image", "lean"}
	l.succeeded(l.RunContext(ctx, nil, args...), args)
}

// Create makes the machine's box.
func (l *Laptop) Create() { l.T.Helper(); l.CreateBox(l.Box) }

// CreateBox makes a box of the project by another name.
func (l *Laptop) CreateBox(name string) {
	l.T.Helper()
	ctx, cancel := context.WithTimeout(l.T.Context(), imageLimit)
	defer cancel()
	args := []string{"create", "--image", "lean", "--name", name}
	l.succeeded(l.RunContext(ctx, nil, args...), args)
}

func (l *Laptop) succeeded(r Result, args []string) {
	l.T.Helper()
	if r.Code != 0 {
		l.T.Fatalf("agentbox %s: exit %d\n%s%s", strings.Join(args, " "), r.Code, r.Out, r.Err)
	}
}

// InBox runs a shell script in the box's workspace.
func (l *Laptop) InBox(script string) Result {
	l.T.Helper()
	return l.Run("shell", l.Box, "--", "sh", "-c", "cd /workspace && "+script)
}

// InBoxOK is InBox for a script that must succeed.
func (l *Laptop) InBoxOK(script string) string {
	l.T.Helper()
	r := l.InBox(script)
	if r.Code != 0 {
		l.T.Fatalf("in the box: %s\nexit %d\n%s%s", script, r.Code, r.Out, r.Err)
	}
	return strings.TrimSpace(r.Out)
}

// Answer runs `agent approve` on a terminal, as a person would, and returns
// what the screen got.
func (l *Laptop) Answer(id string, flags ...string) string {
	l.T.Helper()
	return l.OnTerminal(append([]string{"agent", "approve", id}, flags...)...)
}

// OnTerminal runs agentbox on a terminal; it must succeed.
func (l *Laptop) OnTerminal(args ...string) string {
	l.T.Helper()
	ctx, cancel := context.WithTimeout(l.T.Context(), Limit)
	defer cancel()
	cmd := l.command(ctx, args...)
	tty, err := pty.Start(cmd)
	if err != nil {
		l.T.Fatal(err)
	}
	defer tty.Close()
	screen, _ := io.ReadAll(tty) // a terminal whose other side is gone reads EIO
	if err := cmd.Wait(); err != nil {
		l.T.Fatalf("agentbox %s: %v\n%s", strings.Join(args, " "), err, screen)
	}
	return string(screen)
}

// Git runs git in the user's repository and returns what it printed.
func (l *Laptop) Git(args ...string) string {
	l.T.Helper()
	return l.Must(exec.Command("git", append([]string{"-C", l.Project}, args...)...))
}

// RemoteHas is the commit of a branch on the remote, "" if there is none.
func (l *Laptop) RemoteHas(branch string) string {
	out, err := exec.Command("git", "-C", l.Remote.Path(RemoteRepo), "rev-parse", "--verify", "--quiet", "refs/heads/"+branch).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// Must runs a command, as the user if it has no environment, and returns what
// it printed.
func (l *Laptop) Must(cmd *exec.Cmd) string {
	l.T.Helper()
	if cmd.Env == nil {
		cmd.Env = l.env
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		l.T.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Write writes a file of the user's, with its folders.
func (l *Laptop) Write(path, text string) {
	l.T.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		l.T.Fatal(err)
	}
}

// Landed waits until the user's branch is at the commit.
func (l *Laptop) Landed(branch, oid string) {
	l.T.Helper()
	ctx, cancel := context.WithTimeout(l.T.Context(), 30*time.Second)
	defer cancel()
	if err := seeRef(ctx, filepath.Join(l.Project, ".git/refs/heads", branch), oid); err != nil {
		l.T.Fatalf("%s has not landed: %v", oid, err)
	}
}

// seeRef watches a loose ref until it holds the id.
func seeRef(ctx context.Context, path, oid string) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if data, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(data)) == oid {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", path, ctx.Err())
		case <-tick.C:
		}
	}
}
