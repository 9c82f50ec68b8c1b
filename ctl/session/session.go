// Package session runs commands in the box's terminal sessions, which are
// sessions of tmux, so that they go on when nobody looks.
//
// Invariants:
//   - A request with its environment, the keys of the agent's service among
//     it, lies in a 0600 file on a tmpfs from its arrival until the command
//     starts, and nowhere else: in no argv, no environment of tmux, no disk.
//   - Names are validated, and tmux gets them as exact targets.
//   - The screen of a command that failed stays until it was read, if the
//     request says so.
package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/madarco/agentbox/core/atomicfile"
	wire "github.com/madarco/agentbox/core/session"
	"github.com/madarco/agentbox/ctl/agents"
)

// DefaultDir is where requests and exit codes lie in a box, on a tmpfs.
const DefaultDir = "/run/agentbox/sessions"

// Errors that callers branch on.
var (
	// ErrExists: a session of that name runs.
	ErrExists = errors.New("such a session runs already")
	// ErrNone: there is no such session.
	ErrNone = errors.New("no such session")
	// ErrNoTmux: the box has no tmux.
	ErrNoTmux = errors.New("this box has no tmux")
	// ErrNoProgram: the program of the request is not in the box.
	ErrNoProgram = errors.New("the box has no such program")
)

// Sessions are the terminal sessions of the box's user.
type Sessions struct {
	// Dir holds requests and exit codes.
	Dir string
	// Self is this program, which each session runs first.
	Self string
	// Home is the user's home.
	Home string
}

// Stage checks a request, prepares the first start of its agent, and leaves it
// for Run.
func (s Sessions) Stage(r wire.Request) error {
	if err := r.Check(); err != nil {
		return err
	}
	if err := findProgram(r); err != nil {
		return err
	}
	if err := agents.Seed(r.Agent, agents.Box{Home: s.Home, Dir: string(r.Dir), Env: lookup(r.Env)}); err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	data, err := r.Encode()
	if err != nil {
		return err
	}
	return atomicfile.Write(s.request(r.Name), data, 0o600)
}

func (s Sessions) request(n wire.Name) string { return filepath.Join(s.Dir, string(n)+".request") }
func (s Sessions) pid(n wire.Name) string     { return filepath.Join(s.Dir, string(n)+".pid") }
func (s Sessions) exit(n wire.Name) string    { return filepath.Join(s.Dir, string(n)+".exit") }

// findProgram tells whether the program is there before a terminal flashes up
// and is gone.
func findProgram(r wire.Request) error {
	program := r.Argv[0]
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		program = filepath.Join(string(r.Dir), program)
	}
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%w: %s", ErrNoProgram, r.Argv[0])
	}
	return nil
}

// lookup looks in entries first, then in the box's environment.
func lookup(entries []string) func(string) string {
	return func(name string) string {
		for _, e := range entries {
			if n, value, _ := strings.Cut(e, "="); n == name {
				return value
			}
		}
		return os.Getenv(name)
	}
}

// Start starts a session that nobody is attached to. One of that name whose
// command has ended makes way.
func (s Sessions) Start(ctx context.Context, r wire.Request) error {
	if _, err := exec.LookPath("tmux"); err != nil {
		return ErrNoTmux
	}
	switch _, ended := s.exitCode(r.Name); {
	case !has(ctx, r.Name):
	case !ended:
		return fmt.Errorf("%w: %s", ErrExists, r.Name)
	default:
		if err := s.Kill(ctx, r.Name); err != nil {
			return err
		}
	}
	if err := s.Stage(r); err != nil {
		return err
	}
	if err := os.Remove(s.exit(r.Name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	out, err := tmux(ctx, s.startCommands(r)...)
	if err == nil {
		return nil
	}
	if errors.Is(os.Remove(s.request(r.Name)), os.ErrNotExist) {
		return nil // it began, and has ended before tmux was done with it
	}
	if strings.Contains(out, "duplicate session") {
		return fmt.Errorf("%w: %s", ErrExists, r.Name)
	}
	return fmt.Errorf("start session %s: %w: %s", r.Name, err, out)
}

// The size of a session's screen before the first terminal shows it.
const cols, rows = "120", "40"

// startCommands are tmux commands, each closed by a ";" of its own. How to
// leave a session is the same in every image, whatever a configuration of the
// box says: both prefixes reach tmux, and "d" detaches.
func (s Sessions) startCommands(r wire.Request) []string {
	var args []string
	add := func(words ...string) { args = append(append(args, words...), ";") }
	add("start-server")
	add("set-option", "-s", "exit-empty", "off") // a server that is about to go would take the next start with it
	add("set-option", "-g", "prefix", "C-a")
	add("set-option", "-g", "prefix2", "C-b")
	add("bind-key", "C-a", "send-prefix")
	add("bind-key", "C-b", "send-prefix", "-2")
	add("bind-key", "d", "detach-client")
	add("set-option", "-s", "extended-keys", "on")
	add("set-option", "-s", "escape-time", "0")
	add("set-option", "-g", "focus-events", "on")
	return append(args, "new-session", "-d", "-s", string(r.Name), "-x", cols, "-y", rows, "-c", string(r.Dir), "--",
		s.Self, "session", "run", "--dir", s.Dir, string(r.Name), ";", "set-option", "-t", target(r.Name)+":", "status", "off")
}

// tmux runs tmux commands and returns what they print.
func tmux(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "tmux", args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// target names exactly this session; without "=" tmux would take one whose
// name begins so.
func target(n wire.Name) string { return "=" + string(n) }

func has(ctx context.Context, n wire.Name) bool {
	_, err := tmux(ctx, "has-session", "-t", target(n))
	return err == nil
}

// exitCode is what the command of a session ended with, if it has ended.
func (s Sessions) exitCode(n wire.Name) (code int, ended bool) {
	text, err := os.ReadFile(s.exit(n))
	if err != nil {
		return 0, false
	}
	code, err = strconv.Atoi(string(bytes.TrimSpace(text)))
	return code, err == nil
}

// List is the sessions there are, by name; none where no tmux runs. Those that
// the user made with tmux and named in another way are left out.
func (s Sessions) List(ctx context.Context) []wire.Info {
	out, err := tmux(ctx, "list-sessions", "-F", "#{session_created} #{session_attached} #{session_name}")
	if err != nil {
		return []wire.Info{}
	}
	list := []wire.Info{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		name, err := wire.ParseName(fields[2])
		created, err2 := strconv.ParseInt(fields[0], 10, 64)
		attached, err3 := strconv.Atoi(fields[1])
		if errors.Join(err, err2, err3) != nil {
			continue
		}
		info := wire.Info{Name: name, Created: created, Attached: attached}
		if code, ended := s.exitCode(name); ended {
			info.Exit = &code
		}
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b wire.Info) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Kill ends a session and what runs in it, or a command that runs without one.
func (s Sessions) Kill(ctx context.Context, n wire.Name) error {
	if text, err := os.ReadFile(s.pid(n)); err == nil {
		// Such names are given out once, so the process is this one or gone.
		pid, err := strconv.Atoi(string(text))
		if err == nil && pid > 1 {
			err = syscall.Kill(pid, syscall.SIGTERM)
		}
		return errors.Join(err, os.Remove(s.pid(n)))
	}
	out, err := tmux(ctx, "kill-session", "-t", target(n))
	for _, file := range []string{s.request(n), s.exit(n)} {
		os.Remove(file) //nolint:errcheck // there may be none
	}
	if err != nil && has(ctx, n) {
		return fmt.Errorf("end session %s: %w: %s", n, err, out)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", ErrNone, n)
	}
	return nil
}
