package agents

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
	"github.com/madarco/agentbox/e2e/modelserver"
)

const (
	key            = "sk-canary-0123456789abcdefghijklmnopqrstuvwxyz"
	remoteRepo     = "project.git"
	user, password = "dev", "canary-91b7-never-in-a-box"
	// server is where the model listens, in the box's own network.
	server = "127.0.0.1:9911"
)

// patience bounds what a machine under load may take, and the making of the
// image what that may take from nothing.
const (
	patience   = 5 * time.Minute
	imageLimit = 20 * time.Minute
)

// world is one user's machine with one box.
type world struct {
	t                       *testing.T
	agentbox, home, project string
	box, branch, container  string
	remote                  *gitremote.Remote
	url                     string
}

type result struct {
	out, err string
	code     int
}

// asking are files of a project that make agents ask at their start.
var asking = map[string]string{
	"README.md":             "# shop\n",
	".mcp.json":             `{"mcpServers": {"demo": {"command": "cat"}}}`,
	"CLAUDE.md":             "See @/etc/hostname\n",
	".claude/settings.json": `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}`,
	".codex/config.toml":    "[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"true\"\n",
}

// newWorld makes a project, a box of it, and the model in the box.
func newWorld(t *testing.T, scripts map[string]modelserver.Script) *world {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "docker", "info", "--format", "{{.ServerVersion}}").CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no engine answers: %s", out)
		}
		t.Skipf("no engine answers; scripts/engine starts one: %s", out)
	}
	// A copy, because a program that is built anew meanwhile would replace the
	// relay of this one.
	program, err := os.ReadFile("../../bin/agentbox")
	if err != nil {
		t.Fatalf("%v; run scripts/build first", err)
	}
	bin := filepath.Join(t.TempDir(), "agentbox")
	if err := os.WriteFile(bin, program, 0o755); err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "abx") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	box := "agents-" + core.NewBoxID()
	w := &world{t: t, agentbox: bin, home: home, project: filepath.Join(t.TempDir(), "shop"), box: box, branch: core.BranchPrefix + box}
	w.makeProject()
	t.Cleanup(w.close)
	w.makeBox(scripts)
	return w
}

func (w *world) makeProject() {
	w.t.Helper()
	w.remote = gitremote.New(gitremote.Options{Root: w.t.TempDir(), User: user, Password: password})
	if err := w.remote.Create(w.t.Context(), remoteRepo); err != nil {
		w.t.Fatal(err)
	}
	listener := httptest.NewServer(w.remote)
	w.t.Cleanup(w.remote.Close)
	w.t.Cleanup(listener.Close)
	w.url = listener.URL + "/" + remoteRepo
	store := filepath.Join(w.t.TempDir(), "credentials")
	line := strings.Replace(w.url, "http://", "http://"+user+":"+password+"@", 1) + "\n"
	if err := os.WriteFile(store, []byte(line), 0o600); err != nil {
		w.t.Fatal(err)
	}
	for name, text := range asking {
		file := filepath.Join(w.project, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"config", "user.name", "Dev"},
		{"config", "user.email", "dev@example.test"},
		{"config", "credential.helper", "store --file=" + store},
		{"add", "."},
		{"commit", "-qm", "start the shop"},
		{"remote", "add", "origin", w.url},
		{"push", "-q", "-u", "origin", "main"},
		{"remote", "set-head", "origin", "main"},
	} {
		w.git(args...)
	}
}

// makeBox makes the box with the model's program in it, and starts that.
func (w *world) makeBox(scripts map[string]modelserver.Script) {
	w.t.Helper()
	program := filepath.Join(w.t.TempDir(), "modelserver")
	build := exec.CommandContext(w.t.Context(), "go", "build", "-o", program, "../cmd/modelserver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		w.t.Fatalf("build the model: %v: %s", err, out)
	}
	file, err := os.Open(program)
	if err != nil {
		w.t.Fatal(err)
	}
	defer file.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), imageLimit)
	defer cancel()
	w.must(w.run(ctx, nil, file, "create", "--name", w.box, "--", "sh", "-c", "mkdir -p /tmp/model && cat >/tmp/model/server && chmod +x /tmp/model/server"))
	names := []string{}
	for name, script := range scripts {
		text, err := json.Marshal(script)
		if err != nil {
			w.t.Fatal(err)
		}
		names = append(names, "/tmp/model/"+name+".json")
		w.must(w.run(ctx, nil, bytes.NewReader(text), "shell", w.box, "--", "sh", "-c", "cat >/tmp/model/"+name+".json"))
	}
	// A session of the box keeps the model alive. Its output is the sign that
	// it listens.
	w.must(w.run(ctx, nil, nil, "shell", w.box, "--", "mkfifo", "/tmp/model/up"))
	line := fmt.Sprintf("exec /tmp/model/server -listen %s -key %s -log /tmp/model/log %s >/tmp/model/up", server, key, strings.Join(names, " "))
	w.must(w.run(ctx, nil, strings.NewReader("setsid sh -c '"+line+"' </dev/null 2>/tmp/model/err &\nread -r url </tmp/model/up\n"), "shell", w.box, "--", "sh"))
	var boxes []struct{ Container string }
	out := w.must(w.run(ctx, nil, nil, "list", "--json"))
	if err := json.Unmarshal([]byte(out.out), &boxes); err != nil || len(boxes) != 1 {
		w.t.Fatalf("list: %v, %s", err, out.out)
	}
	w.container = boxes[0].Container
}

func (w *world) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if w.t.Failed() {
		log, _ := os.ReadFile(filepath.Join(w.home, "relay.log"))
		w.t.Logf("relay.log:\n%s", log)
	}
	for _, args := range [][]string{{"destroy", "--force", w.box}, {"relay", "stop"}} {
		if r := w.run(ctx, nil, nil, args...); r.code != 0 {
			w.t.Errorf("agentbox %v: %s", args, r.err)
		}
	}
	if err := os.RemoveAll(w.home); err != nil {
		w.t.Error(err)
	}
}

// environ is the user's environment. With a script it holds the agents' keys
// and the address of the model that plays it.
func (w *world) environ(script string) []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "ANTHROPIC_") || strings.HasPrefix(entry, "OPENAI_")
	})
	env = append(env, "AGENTBOX_HOME="+w.home, "NO_COLOR=1")
	if script == "" {
		return env
	}
	url := "http://" + server + "/" + script
	return append(env, "ANTHROPIC_API_KEY="+key, "ANTHROPIC_BASE_URL="+url, "OPENAI_API_KEY="+key, "OPENAI_BASE_URL="+url+"/v1",
		// Of two providers with a key, OpenCode would take one by its own taste.
		`OPENCODE_CONFIG_CONTENT={"model":"anthropic/claude-sonnet-4-6","small_model":"anthropic/claude-sonnet-4-6"}`)
}

// run runs agentbox in the project.
func (w *world) run(ctx context.Context, env []string, stdin io.Reader, args ...string) result {
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, w.agentbox, args...)
	if env == nil {
		env = w.environ("")
	}
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = w.project, env, stdin, &out, &errOut
	err := cmd.Run()
	r := result{out: out.String(), err: errOut.String(), code: cmd.ProcessState.ExitCode()}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		r.err += err.Error()
	}
	return r
}

func (w *world) must(r result) result {
	w.t.Helper()
	if r.code != 0 {
		w.t.Fatalf("agentbox ended with %d\n%s%s", r.code, r.out, r.err)
	}
	return r
}

// inBox runs a line of shell in the box.
func (w *world) inBox(ctx context.Context, t *testing.T, line string) string {
	t.Helper()
	r := w.run(ctx, nil, nil, "shell", w.box, "--", "sh", "-c", line)
	if r.code != 0 {
		t.Fatalf("in the box: %s\nended with %d: %s%s", line, r.code, r.out, r.err)
	}
	return strings.TrimSpace(r.out)
}

// requests is what the model has seen so far.
func (w *world) requests(t *testing.T) string {
	t.Helper()
	return w.inBox(w.t.Context(), t, "cat /tmp/model/log /tmp/model/err")
}

// waiting is the id of the one question that waits.
func (w *world) waiting(ctx context.Context, t *testing.T) string {
	t.Helper()
	r := w.run(ctx, nil, nil, "agent", "approvals", w.box, "--json", "--wait", patience.String())
	var list []struct{ ID string }
	if err := json.Unmarshal([]byte(r.out), &list); err != nil || len(list) != 1 {
		t.Fatalf("agent approvals printed %s%s (%v), requests: %s", r.out, r.err, err, w.requests(t))
	}
	return list[0].ID
}

// answer answers a question on a terminal, as a person does.
func (w *world) answer(ctx context.Context, t *testing.T, id string, flags ...string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, w.agentbox, append([]string{"agent", "approve", id}, flags...)...)
	cmd.Dir, cmd.Env = w.project, w.environ("")
	tty, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	screen, _ := io.ReadAll(tty) // a terminal whose other side is gone reads EIO
	if err := cmd.Wait(); err != nil {
		t.Fatalf("agent approve: %v\n%s", err, screen)
	}
}

// git runs git in the user's repository.
func (w *world) git(args ...string) string {
	w.t.Helper()
	out, err := exec.Command("git", append([]string{"-C", w.project}, args...)...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// remoteHas is the commit of a branch on the remote, "" if there is none.
func (w *world) remoteHas(branch string) string {
	out, err := exec.Command("git", "-C", w.remote.Path(remoteRepo), "rev-parse", "--verify", "--quiet", "refs/heads/"+branch).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func (w *world) docker(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %v: %v: %s", args, err, out)
	}
	return string(out)
}
