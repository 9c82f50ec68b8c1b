package session

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

// local runs the argv of a box on this machine, with a folder as workspace.
type local struct{ workspace string }

func (l local) Exec(ctx context.Context, _ core.Box, req provider.ExecRequest) (int, error) {
	argv := append([]string(nil), req.Argv...)
	argv[2] = strings.Replace(argv[2], string(core.WorkspacePath), l.workspace, 1)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + l.workspace} // no profile of this machine
	cmd.Stdin, cmd.Stdout, cmd.Stderr = req.Stdin, req.Stdout, req.Stderr
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		if s := exit.Sys().(syscall.WaitStatus); s.Signaled() {
			return 128 + int(s.Signal()), nil
		}
		return exit.ExitCode(), nil
	} else if err != nil {
		return 0, err
	}
	return 0, nil
}

func TestWordsOfACommandArriveAsTheyAre(t *testing.T) {
	f, err := os.Open("testdata/verbatim.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	workspace := t.TempDir()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var c struct {
			Argv   []string
			Stdin  string
			Stdout string
			RC     int
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		t.Run(strings.Join(c.Argv, " "), func(t *testing.T) {
			s, in, out, errOut := streams.Test()
			in.WriteString(c.Stdin)
			err := Run(t.Context(), s, local{workspace}, core.Box{Name: "x"}, c.Argv)
			code := 0
			var exit fail.Exit
			if errors.As(err, &exit) {
				code = int(exit)
			} else if err != nil {
				t.Fatal(err)
			}
			if out.String() != c.Stdout || code != c.RC {
				t.Errorf("got %q, %d; want %q, %d; %s", out, code, c.Stdout, c.RC, errOut)
			}
		})
	}
}

func TestACommandRunsInTheWorkspaceOrNotAtAll(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"pwd"}, {"sh", "-c", "pwd"}} {
		s, _, out, _ := streams.Test()
		if err := Run(t.Context(), s, local{dir}, core.Box{}, command); err != nil || out.String() != dir+"\n" {
			t.Errorf("%v: got %q, %v, want %s", command, out, err, dir)
		}
		s, _, out, _ = streams.Test()
		if err := Run(t.Context(), s, local{filepath.Join(dir, "missing")}, core.Box{}, command); err == nil || out.Len() > 0 {
			t.Errorf("%v ran without a workspace: %q, %v", command, out, err)
		}
	}
}

// seen keeps what a session asked for, and the size after the terminal changed.
type seen struct {
	req     provider.ExecRequest
	resized provider.TTYSize
}

func (s *seen) Exec(ctx context.Context, _ core.Box, req provider.ExecRequest) (int, error) {
	s.req = req
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		return 0, err
	}
	select {
	case s.resized = <-req.Resize:
		return 3, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func TestASessionOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	user, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	defer tty.Close()
	if err := pty.Setsize(user, &pty.Winsize{Cols: 100, Rows: 40}); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	s := &streams.Streams{In: tty, Out: tty, ErrOut: io.Discard, InTTY: true, OutTTY: true}
	box := &seen{}
	var exit fail.Exit
	if err := Run(t.Context(), s, box, core.Box{}, nil); !errors.As(err, &exit) || exit != 3 {
		t.Errorf("the session ended with %v", err)
	}
	if want := (provider.TTYSize{Cols: 100, Rows: 40}); *box.req.TTY != want || box.resized != want {
		t.Errorf("sizes %v, then %v; want %v", *box.req.TTY, box.resized, want)
	}
	if got := strings.Join(box.req.Env, " "); got != "TERM=xterm-256color" {
		t.Errorf("environment %q", got)
	}
	after, err := term.GetState(int(tty.Fd()))
	if err != nil || *after != *before {
		t.Errorf("the terminal was not given back: %v", err)
	}
}

func TestOnlyAWordGoesToTheBoxAsTerminalType(t *testing.T) {
	for s, want := range map[string]bool{
		"xterm-256color": true, "screen.xterm+x_1": true, "": false, "-x": false, "a b": false, "a=b": false, "a\n": false,
		"é": false, strings.Repeat("x", 65): false,
	} {
		if got := isTerminalType(s); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}
