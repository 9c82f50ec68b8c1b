package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/madarco/agentbox/core"
	wire "github.com/madarco/agentbox/core/session"
)

// TestMain is also what a session runs first, and what a test attaches with.
func TestMain(m *testing.M) {
	if len(os.Args) == 6 && os.Args[1] == "session" && os.Args[2] == "run" { // --dir DIR NAME
		finish(Sessions{Dir: os.Args[4]}.Run(wire.Name(os.Args[5])))
	}
	if len(os.Args) == 4 && os.Args[1] == "attach" {
		finish(Sessions{Dir: os.Args[2], Home: "/nonexistent"}.Attach(context.Background(), wire.Name(os.Args[3]), "once-lease"))
	}
	os.Exit(m.Run())
}

func finish(code int, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
	os.Exit(code)
}

// patience bounds what a machine under load may take.
const patience = time.Minute

// sessions are those of a tmux server of the test's own.
func sessions(t *testing.T) (context.Context, Sessions) {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "s") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMUX_TMPDIR", dir)
	t.Setenv("TMUX", "")
	t.Setenv("HOME", dir) // no configuration of this machine
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		exec.Command("tmux", "kill-server").Run() //nolint:errcheck // it ends with its last session
		os.RemoveAll(dir)
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx, Sessions{Dir: filepath.Join(dir, "sessions"), Self: self, Home: dir}
}

// told is a shell command that lets heard return.
const told = "tmux wait-for -S told"

func heard(ctx context.Context, t *testing.T) {
	t.Helper()
	if out, err := tmux(ctx, "wait-for", "told"); err != nil {
		t.Fatalf("the session does not say that it runs: %v, %s", err, out)
	}
}

// shell is a request to run a line of shell, held when it fails.
func shell(name wire.Name, line string, env ...string) wire.Request {
	return wire.Request{Name: name, Argv: []string{"sh", "-c", line}, Env: env, Dir: core.BoxPath(os.TempDir()), Hold: true}
}

// shows waits until a session's screen holds text.
func shows(ctx context.Context, t *testing.T, n wire.Name, text string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		screen, _ := tmux(ctx, "capture-pane", "-p", "-t", target(n)+":")
		if strings.Contains(screen, text) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("session %s never shows %q:\n%s", n, text, screen)
		}
	}
}

// gone waits until a session has ended.
func gone(ctx context.Context, t *testing.T, n wire.Name) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for has(ctx, n) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("session %s does not end", n)
		}
	}
}

func TestAKeyIsInTheEnvironmentOfItsSessionAlone(t *testing.T) {
	ctx, s := sessions(t)
	const key = "canary-7f3a-key"
	// The key comes back in two parts, so that the screen is no place of it.
	r := shell("a", told+`; echo "${KEY%-key}" "${#KEY}"; exec cat`, "KEY="+key)
	if err := s.Start(ctx, r); err != nil {
		t.Fatal(err)
	}
	heard(ctx, t)
	shows(ctx, t, "a", "canary-7f3a "+strconv.Itoa(len(key)))
	err := filepath.WalkDir(filepath.Dir(s.Dir), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(key)) {
			t.Errorf("the key is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	pids, err := tmux(ctx, "display-message", "-p", "-t", "=a:", "#{pid} #{pane_pid}")
	if err != nil {
		t.Fatal(pids, err)
	}
	for _, pid := range strings.Fields(pids) {
		for _, file := range []string{"environ", "cmdline"} {
			text, err := os.ReadFile(filepath.Join("/proc", pid, file))
			if err != nil || bytes.Contains(text, []byte(key)) {
				t.Errorf("/proc/%s/%s: %q, %v", pid, file, text, err)
			}
		}
	}
	if out, err := tmux(ctx, "show-environment", "-g"); err != nil || strings.Contains(out, key) {
		t.Errorf("tmux has the key: %s, %v", out, err)
	}
}

func TestARequestIsReadableForItsOwnerAlone(t *testing.T) {
	_, s := sessions(t)
	if err := s.Stage(shell("a", "true", "KEY=x")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{s.Dir: 0o700, s.request("a"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s is %v, %v", path, info.Mode(), err)
		}
	}
}

func TestEachSessionCanBeLeftInTheSameWay(t *testing.T) {
	ctx, s := sessions(t)
	config := filepath.Join(s.Home, ".tmux.conf")
	if err := os.WriteFile(config, []byte("set -g prefix C-x\nunbind d\nset -g status on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(ctx, shell("a", "exec cat")); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"show-options -gv prefix":        "C-a",
		"show-options -gv prefix2":       "C-b",
		"show-options -gv focus-events":  "on",
		"show-options -sv extended-keys": "on",
		"show-options -t =a: -v status":  "off",
		"show-options -gv status":        "on", // the box user's own sessions keep theirs
	} {
		if got, err := tmux(ctx, strings.Fields(args)...); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", args, got, err, want)
		}
	}
	if keys, err := tmux(ctx, "list-keys", "-T", "prefix", "d"); err != nil || !strings.Contains(keys, "detach-client") {
		t.Errorf("d does %q, %v", keys, err)
	}
}

func TestASessionThatRunsIsNotStartedTwice(t *testing.T) {
	ctx, s := sessions(t)
	if err := s.Start(ctx, shell("ab", told+"; exec cat")); err != nil {
		t.Fatal(err)
	}
	heard(ctx, t) // so its request was taken
	if err := s.Start(ctx, shell("ab", "exec cat", "KEY=x")); !errors.Is(err, ErrExists) {
		t.Errorf("a second start: %v", err)
	}
	if _, err := os.Stat(s.request("ab")); err == nil {
		t.Error("the refused request stays")
	}
	// tmux takes "a" for "ab" unless it is told otherwise.
	if err := s.Kill(ctx, "a"); !errors.Is(err, ErrNone) {
		t.Errorf("kill a: %v", err)
	}
	if err := s.Start(ctx, shell("a", "exec cat")); err != nil {
		t.Error(err)
	}
	var names []wire.Name
	for _, i := range s.List(ctx) {
		names = append(names, i.Name)
	}
	if fmt.Sprint(names) != "[a ab]" {
		t.Errorf("sessions: %v", names)
	}
	if err := s.Kill(ctx, "ab"); err != nil || has(ctx, "ab") || !has(ctx, "a") {
		t.Errorf("after kill ab: %v", err)
	}
}

func TestTheScreenOfACommandThatFailedStaysUntilItWasRead(t *testing.T) {
	ctx, s := sessions(t)
	line := "echo the reason; stty raw -echo; exit 7" // as agents leave a terminal
	if err := s.Start(ctx, shell("a", line)); err != nil {
		t.Fatal(err)
	}
	shows(ctx, t, "a", "[sh ended with code 7; Enter closes this]")
	shows(ctx, t, "a", "the reason")
	if list := s.List(ctx); len(list) != 1 || list[0].Exit == nil || *list[0].Exit != 7 {
		t.Errorf("list: %+v", list)
	}
	// A new start takes its place.
	if err := s.Start(ctx, shell("a", "kill -TERM $$")); err != nil {
		t.Fatal(err)
	}
	shows(ctx, t, "a", "[sh ended with code 143;")
	if _, err := tmux(ctx, "send-keys", "-t", "=a:", "Enter"); err != nil {
		t.Fatal(err)
	}
	gone(ctx, t, "a")
	if code, err := s.Attach(ctx, "a", ""); code != 143 || err != nil {
		t.Errorf("attach afterwards: %d, %v", code, err)
	}
	if _, err := s.Attach(ctx, "a", ""); !errors.Is(err, ErrNone) {
		t.Errorf("attach once more: %v", err)
	}
}

func TestACommandThatEndsAtOnceIsNoFailure(t *testing.T) {
	ctx, s := sessions(t)
	for i := range 20 {
		r := shell(wire.Name("a"+strconv.Itoa(i)), "true")
		r.Hold = i%2 == 0
		if err := s.Start(ctx, r); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatCannotBeStartedIsSaidBefore(t *testing.T) {
	ctx, s := sessions(t)
	missing := shell("a", "")
	missing.Argv = []string{"no-such-program"}
	if err := s.Start(ctx, missing); !errors.Is(err, ErrNoProgram) {
		t.Errorf("a missing program: %v", err)
	}
	missing.Argv = []string{"./no-such-script"}
	if err := s.Start(ctx, missing); !errors.Is(err, ErrNoProgram) {
		t.Errorf("a missing script: %v", err)
	}
	bad := shell("a", "true")
	bad.Name = "a:b"
	if err := s.Start(ctx, bad); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a bad name: %v", err)
	}
	if list := s.List(ctx); list == nil || len(list) > 0 {
		t.Errorf("list: %v", list)
	}
	if _, err := s.Attach(ctx, "a", ""); !errors.Is(err, ErrNone) {
		t.Errorf("attach to nothing: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := s.Start(ctx, shell("a", "true")); !errors.Is(err, ErrNoTmux) {
		t.Errorf("without tmux: %v", err)
	}
}

func TestAnAgentsFirstStartIsPrepared(t *testing.T) {
	_, s := sessions(t)
	r := shell("claude", "true", "ANTHROPIC_API_KEY=sk-0123456789-abcdefghijklmnopqrst")
	r.Agent = "claude"
	if err := s.Stage(r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(s.Home, ".claude.json"))
	if err != nil || !strings.Contains(string(text), `"abcdefghijklmnopqrst"`) {
		t.Errorf("the agent's file: %s, %v", text, err)
	}
}

// attached attaches a terminal of 100 columns in a process of its own.
func attached(ctx context.Context, t *testing.T, s Sessions, n wire.Name) (*os.File, *exec.Cmd) {
	t.Helper()
	cmd := exec.CommandContext(ctx, s.Self, "attach", s.Dir, string(n))
	cmd.Env = environ([]string{"TERM=no-terminal-of-this-world"})
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 100, Rows: 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	go func() { // a terminal takes what is shown
		buf := make([]byte, 4096)
		for {
			if _, err := tty.Read(buf); err != nil {
				return
			}
		}
	}()
	return tty, cmd
}

func TestDetachLeavesTheSessionAndItsEndGivesItsCode(t *testing.T) {
	ctx, s := sessions(t)
	line := told + `; while read -r word; do [ "$word" != end ] || exit 5; echo "got $word"; done`
	if err := s.Start(ctx, shell("a", line)); err != nil {
		t.Fatal(err)
	}
	heard(ctx, t)
	tty, cmd := attached(ctx, t, s, "a")
	fmt.Fprint(tty, "one\r")
	shows(ctx, t, "a", "got one")
	fmt.Fprint(tty, "\x01d")
	if err := cmd.Wait(); err != nil {
		t.Errorf("after detaching the code is not zero: %v", err)
	}
	if list := s.List(ctx); len(list) != 1 || list[0].Attached != 0 || list[0].Exit != nil {
		t.Fatalf("after detaching: %+v", list)
	}
	tty, cmd = attached(ctx, t, s, "a")
	fmt.Fprint(tty, "end\r")
	shows(ctx, t, "a", "ended with code 5")
	fmt.Fprint(tty, "\r")
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 5 {
		t.Errorf("at its end: %v", err)
	}
}

func TestWhoeverHoldsTheLeaseEndsTheAttachAndNotTheSession(t *testing.T) {
	ctx, s := sessions(t)
	if err := s.Start(ctx, shell("a", told+"; read -r word; echo \"got $word\"; read -r word")); err != nil {
		t.Fatal(err)
	}
	heard(ctx, t)
	tty, cmd := attached(ctx, t, s, "a")
	fmt.Fprint(tty, "one\r")
	shows(ctx, t, "a", "got one")
	caller, input := io.Pipe()
	held := make(chan error, 1)
	go func() { held <- s.Hold(ctx, "once-lease", caller) }()
	input.Close()
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	cmd.Wait() //nolint:errcheck // how it ends is not the point
	if list := s.List(ctx); len(list) != 1 || list[0].Attached != 0 {
		t.Errorf("left are %+v", list)
	}
	if err := s.Hold(ctx, "once-lease", strings.NewReader("")); err != nil {
		t.Errorf("of an attach that has ended: %v", err)
	}
}

func TestACommandWithoutASessionCanBeEnded(t *testing.T) {
	ctx, s := sessions(t)
	r := shell("once-1", "echo up; exec cat")
	r.Hold = false
	if err := s.Stage(r); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, s.Self, "session", "run", "--dir", s.Dir, "once-1")
	cmd.Env = environ([]string{"TMUX="})
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if cmd.Stdin, err = os.Open("/dev/zero"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	up := make([]byte, 3)
	if _, err := io.ReadFull(out, up); err != nil || string(up) != "up\n" {
		t.Fatalf("it says %q, %v", up, err)
	}
	if err := s.Kill(ctx, "once-1"); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", err)
	}
	if err := s.Kill(ctx, "once-1"); !errors.Is(err, ErrNone) {
		t.Errorf("ended once more: %v", err)
	}
}

func TestAnUnknownTerminalIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "f"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f", "foot"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"foot": "foot", "": "xterm-256color", "kitty": "xterm-256color", "../f/foot": "xterm-256color", "f/foot": "xterm-256color",
	} {
		if got := terminalType(name, []string{"/nonexistent", dir}); got != want {
			t.Errorf("%q becomes %q", name, got)
		}
	}
}
