package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/madarco/agentbox/core/atomicfile"
	wire "github.com/madarco/agentbox/core/session"
	"github.com/madarco/agentbox/ctl/proc"
)

// fallbackTerminal is known to every terminal database and close to all that
// people use.
const fallbackTerminal = "xterm-256color"

// Attach shows a session on this process's terminal until the user detaches or
// the session ends. The code is that of the session's command if that has
// ended, perhaps before it could be shown, else zero. Under lease, unless that
// is "", Hold ends it.
func (s Sessions) Attach(ctx context.Context, n, lease wire.Name) (int, error) {
	if !has(ctx, n) {
		if code, ended := s.exitCode(n); ended {
			return code, os.Remove(s.exit(n))
		}
		return 0, fmt.Errorf("%w: %s", ErrNone, n)
	}
	cmd := exec.CommandContext(ctx, "tmux", "attach-session", "-t", target(n))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = environ([]string{"TERM=" + terminalType(os.Getenv("TERM"), databases(s.Home)), "TMUX="})
	err := s.leased(cmd, lease)
	if has(ctx, n) {
		if err != nil {
			return 0, fmt.Errorf("show session %s: %w", n, err)
		}
		return 0, nil
	}
	code, _ := s.exitCode(n)
	return code, nil
}

// leased runs a command whose process a lease names.
func (s Sessions) leased(cmd *exec.Cmd, lease wire.Name) error {
	if lease == "" {
		return cmd.Run()
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	if err := proc.Start(cmd); err != nil {
		return err
	}
	kept := atomicfile.Write(s.pid(lease), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
	defer os.Remove(s.pid(lease))
	return errors.Join(cmd.Wait(), kept)
}

// Hold ends what is shown under a lease when input ends: nothing tells a
// command on a terminal of the engine's that nobody is at the other side.
func (s Sessions) Hold(ctx context.Context, lease wire.Name, input io.Reader) error {
	io.Copy(io.Discard, input) //nolint:errcheck // an input that breaks has ended
	if err := s.Kill(ctx, lease); !errors.Is(err, ErrNone) {
		return err
	}
	return nil // it was left before
}

// databases are the folders of compiled terminal descriptions, as Debian's
// terminfo(5) lists them.
func databases(home string) []string {
	return []string{filepath.Join(home, ".terminfo"), "/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo"}
}

// terminalType is name where the box describes that terminal, else the
// fallback: a program that meets an unknown terminal refuses to draw.
func terminalType(name string, databases []string) string {
	if name == "" || filepath.Base(name) != name {
		return fallbackTerminal
	}
	for _, dir := range databases {
		if _, err := os.Stat(filepath.Join(dir, name[:1], name)); !errors.Is(err, os.ErrNotExist) {
			return name
		}
	}
	return fallbackTerminal
}
