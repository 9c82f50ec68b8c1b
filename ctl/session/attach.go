package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	wire "github.com/madarco/agentbox/core/session"
)

// fallbackTerminal is known to every terminal database and close to all that
// people use.
const fallbackTerminal = "xterm-256color"

// Attach shows a session on this process's terminal until the user detaches or
// the session ends. The code is that of the session's command if that has
// ended, perhaps before it could be shown, else zero.
func (s Sessions) Attach(ctx context.Context, n wire.Name) (int, error) {
	if !has(ctx, n) {
		if code, ended := s.exitCode(n); ended {
			return code, os.Remove(s.exit(n))
		}
		return 0, fmt.Errorf("%w: %s", ErrNone, n)
	}
	cmd := exec.CommandContext(ctx, "tmux", "attach-session", "-t", target(n))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = environ([]string{"TERM=" + terminalType(os.Getenv("TERM"), databases(s.Home)), "TMUX="})
	err := cmd.Run()
	if has(ctx, n) {
		if err != nil {
			return 0, fmt.Errorf("show session %s: %w", n, err)
		}
		return 0, nil
	}
	code, _ := s.exitCode(n)
	return code, nil
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
