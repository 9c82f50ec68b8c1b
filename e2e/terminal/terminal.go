// Package terminal drives a program as a person at a terminal does, for
// end-to-end tests: keys go in, the screen is read, by a tmux of the test's own.
//
// Invariant: nothing waits by sleeping; the screen is looked at when the
// program has printed something.
package terminal

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Terminal is a program in a tmux of its own.
type Terminal struct {
	t       *testing.T
	ctx     context.Context
	socket  string
	changed chan struct{} // something was printed, or the program has ended
	alive   *os.File      // ends when no process of the program is left
	pid     int           // of the program, which leads a group
}

const tmuxConfig = `set -g default-terminal screen-256color
set -g focus-events on
`

// Open runs a program on a screen of 120 columns and 40 lines until the
// test ends or Close is called.
func Open(ctx context.Context, t *testing.T, dir string, env []string, command ...string) *Terminal {
	t.Helper()
	// The path of a socket must be short.
	socketDir, err := os.MkdirTemp("", "tmux")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(socketDir, "conf")
	if err := os.WriteFile(config, []byte(tmuxConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	term := &Terminal{t: t, ctx: ctx, socket: filepath.Join(socketDir, "s"), changed: make(chan struct{}, 1)}
	fifo := filepath.Join(socketDir, "alive")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if term.alive, err = os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		t.Fatal(err)
	}
	start := exec.CommandContext(ctx, "tmux", append([]string{
		"-S", term.socket, "-f", config, "new-session", "-d", "-x", "120", "-y", "40", "-P", "-F", "#{pane_pid}", "--",
		"sh", "-c", `fifo=$1; shift; exec "$@" 9>"$fifo"`, "sh", fifo,
	}, command...)...)
	start.Dir, start.Env = dir, env
	out, err := start.CombinedOutput()
	if err != nil {
		t.Fatalf("start tmux: %v: %s", err, out)
	}
	t.Cleanup(func() {
		term.Close()
		os.RemoveAll(socketDir)
	})
	if term.pid, err = strconv.Atoi(strings.TrimSpace(string(out))); err != nil {
		t.Fatal(err)
	}
	term.watch()
	return term
}

// watch has tmux report what the program prints, by its control mode.
func (term *Terminal) watch() {
	control := exec.CommandContext(term.ctx, "tmux", "-S", term.socket, "-C", "attach", "-f", "ignore-size")
	stdin, err := control.StdinPipe() // its end would detach
	if err != nil {
		term.t.Fatal(err)
	}
	stdout, err := control.StdoutPipe()
	if err != nil {
		term.t.Fatal(err)
	}
	if err := control.Start(); err != nil {
		term.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewReader(stdout)
		for {
			line, err := lines.ReadString('\n')
			if err != nil || strings.HasPrefix(line, "%output") {
				select {
				case term.changed <- struct{}{}:
				default:
				}
			}
			if err != nil {
				_, _ = io.Copy(io.Discard, stdout)
				return
			}
		}
	}()
	term.t.Cleanup(func() {
		stdin.Close()
		<-ended
		_ = control.Wait()
	})
}

// grace is how long a program may take to end when its terminal has gone.
const grace = 30 * time.Second

// Close takes the program's terminal away and returns when it has ended.
func (term *Terminal) Close() {
	if err := exec.Command("tmux", "-S", term.socket, "kill-server").Run(); err != nil {
		return // it was closed before
	}
	_ = term.alive.SetReadDeadline(time.Now().Add(grace))
	if _, err := io.Copy(io.Discard, term.alive); err != nil {
		term.t.Errorf("the program outlives its terminal: %v", err)
		_ = syscall.Kill(-term.pid, syscall.SIGKILL)
	}
	term.alive.Close()
}

// Tmux runs one command of the tmux that the program runs in, and returns
// what it prints.
func (term *Terminal) Tmux(args ...string) (string, error) {
	out, err := exec.CommandContext(term.ctx, "tmux", append([]string{"-S", term.socket}, args...)...).Output()
	return string(out), err
}

// Ended returns when the program has ended and its terminal is gone.
func (term *Terminal) Ended() {
	term.t.Helper()
	deadline, _ := term.ctx.Deadline()
	_ = term.alive.SetReadDeadline(deadline)
	if _, err := io.Copy(io.Discard, term.alive); err != nil {
		screen, _ := term.Tmux("capture-pane", "-p")
		term.t.Fatalf("the program does not end: %v\n%s", err, screen)
	}
}

// Wait returns when the screen shows text.
func (term *Terminal) Wait(text string) {
	term.t.Helper()
	last := ""
	for {
		screen, err := term.Tmux("capture-pane", "-p")
		if err != nil {
			term.t.Fatalf("the program has ended before its screen showed %q: %v; the last screen:\n%s", text, err, last)
		}
		if strings.Contains(screen, text) {
			return
		}
		last = screen
		select {
		case <-term.changed:
		case <-term.ctx.Done():
			term.t.Fatalf("the screen never showed %q:\n%s", text, last)
		}
	}
}

// Enter pastes a line, sees it on the screen and presses the enter key. Agents
// take keys that come fast for a paste, with the enter key as a part of it.
func (term *Terminal) Enter(line string) {
	term.t.Helper()
	for _, args := range [][]string{{"set-buffer", "--", line}, {"paste-buffer", "-p"}} {
		if _, err := term.Tmux(args...); err != nil {
			term.t.Fatalf("tmux %s: %v", args[0], err)
		}
	}
	term.Wait(line)
	if _, err := term.Tmux("send-keys", "Enter"); err != nil {
		term.t.Fatalf("press enter: %v", err)
	}
}
