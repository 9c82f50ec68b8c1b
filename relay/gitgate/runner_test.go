package gitgate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fake is a git program whose text the test chooses.
func fake(t *testing.T, script string) runner {
	t.Helper()
	path := filepath.Join(t.TempDir(), "git")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return runner{path}
}

func TestChildrenAreBounded(t *testing.T) {
	t.Parallel()
	r := fake(t, "ulimit -v; ulimit -t; ulimit -f; ulimit -c\n")
	out, err := r.run(t.Context(), command{args: []string{"x"}, env: sealed, limits: &bounds{memory: 1 << 30, cpu: 7, file: 1 << 20}, deadline: quick})
	if got := strings.Fields(string(out)); err != nil || strings.Join(got, " ") != "1048576 7 2048 0" {
		t.Errorf("limits %q, %v", got, err)
	}
}

func TestNothingOfOursIsInherited(t *testing.T) {
	t.Setenv("GIT_DIR", "/nowhere")
	t.Setenv("SECRET", "x")
	r := fake(t, "env\n")
	for _, env := range [][]string{sealed, ourselves().environment()} {
		out, err := r.run(t.Context(), command{args: []string{"x"}, env: env, deadline: quick})
		if err != nil || bytes.Contains(out, []byte("SECRET")) || bytes.Contains(out, []byte("GIT_DIR")) {
			t.Errorf("environment %s, %v", out, err)
		}
	}
}

// TestTheWholeGroupEnds: a child that has children of its own leaves none when
// its context ends.
func TestTheWholeGroupEnds(t *testing.T) {
	t.Parallel()
	r := fake(t, "sleep 1000 & echo $!; wait\n")
	ctx, cancel := context.WithCancel(t.Context())
	var pid int
	err := r.stream(ctx, command{args: []string{"x"}, env: sealed, deadline: time.Hour}, func(out io.Reader) error {
		line := make([]byte, 20)
		n, err := out.Read(line)
		if err != nil {
			return err
		}
		if pid, err = strconv.Atoi(strings.TrimSpace(string(line[:n]))); err != nil {
			return err
		}
		cancel()
		_, err = io.Copy(io.Discard, out)
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// The signal is sent; the child is ours no more, so wait for it to vanish.
	for syscall.Kill(pid, 0) == nil && !zombie(pid) {
		if t.Context().Err() != nil {
			t.Fatal("a child of the child is left")
		}
	}
}

func zombie(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err != nil || strings.Contains(string(text), ") Z ")
}

// TestComplaintsAreBounded: a box chooses what git complains about, and how
// often.
func TestComplaintsAreBounded(t *testing.T) {
	t.Parallel()
	r := fake(t, "head -c 1000000 /dev/zero >&2; exit 1\n")
	_, err := r.run(t.Context(), command{args: []string{"x"}, env: sealed, deadline: quick})
	var failed *gitError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	if len(failed.stderr) != stderrLimit {
		t.Errorf("kept %d bytes of complaint, want %d", len(failed.stderr), stderrLimit)
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	r := fake(t, "sleep 1000\n")
	_, err := r.run(t.Context(), command{args: []string{"x"}, env: sealed, deadline: time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestErrorsOfTheReaderEndTheChild(t *testing.T) {
	t.Parallel()
	r := fake(t, "while :; do echo x; done\n")
	enough := errors.New("enough")
	err := r.stream(t.Context(), command{args: []string{"x"}, env: sealed, deadline: time.Hour}, func(io.Reader) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
}

func TestFailuresQuoteWhatGitSays(t *testing.T) {
	t.Parallel()
	r := fake(t, "printf 'fatal: \\033[31mred\\n' >&2; exit 3\n")
	_, err := r.run(t.Context(), command{args: []string{"verb"}, env: sealed, deadline: quick})
	if exitCode(err) != 3 || !strings.Contains(err.Error(), `git verb: exit status 3: "fatal: \u001b[31mred"`) {
		t.Errorf("got %v", err)
	}
	if exitCode(nil) != -1 {
		t.Error("success has an exit code")
	}
}

func TestGitIsFoundOutsideTheCurrentFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("PATH", ".::relative")
	if _, err := findGit(); !errors.Is(err, ErrNoGit) {
		t.Errorf("got %v", err)
	}
	t.Setenv("PATH", ".:"+dir)
	if got, err := findGit(); err != nil || got != filepath.Join(dir, "git") {
		t.Errorf("got %s, %v", got, err)
	}
}
