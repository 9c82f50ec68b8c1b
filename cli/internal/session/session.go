// Package session runs a command of the user in a box, on the user's terminal
// or on plain streams.
//
// Invariants:
//   - Exec starts in "/": the working folder is entered by the shell in the
//     box, so that no path that the box can write is resolved by the engine.
//   - Words of the user's command are never parsed a second time.
//   - The terminal is given back as it was found, on every way out.
package session

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

// Execer is the part of a provider that sessions need.
type Execer interface {
	Exec(ctx context.Context, box core.Box, req provider.ExecRequest) (int, error)
}

// Argv is what runs in the box for a command of the user: none is a login
// shell, one word a line for that shell, several are run as they are.
func Argv(command []string) []string {
	const enter = "cd " + string(core.WorkspacePath) + " || exit; "
	switch len(command) {
	case 0:
		return []string{"/bin/bash", "-c", enter + "exec /bin/bash -l"}
	case 1:
		return []string{"/bin/bash", "-lc", enter + `eval "$1"`, "agentbox", command[0]}
	default:
		return append([]string{"/bin/bash", "-c", enter + `exec -- "$@"`, "agentbox"}, command...)
	}
}

// Run runs command in the box, attached to the streams, and waits for its end.
// A code other than zero is returned as fail.Exit.
func Run(ctx context.Context, s *streams.Streams, in Execer, box core.Box, command []string) error {
	req := provider.ExecRequest{Argv: Argv(command), Stdin: s.In, Stdout: s.Out, Stderr: s.ErrOut}
	if in, out, ok := terminal(s); ok {
		restore, err := attach(ctx, in, out, &req)
		if err != nil {
			return err
		}
		defer restore()
	}
	code, err := in.Exec(ctx, box, req)
	if err != nil {
		return fmt.Errorf("run in box %s: %w", box.Name, err)
	}
	return fail.Exited(code)
}

// terminal is the user's terminal, if both ends of the session are one.
func terminal(s *streams.Streams) (in, out *os.File, ok bool) {
	if !s.InTTY || !s.OutTTY {
		return nil, nil, false
	}
	in, ok = s.In.(*os.File)
	out, ok2 := s.Out.(*os.File)
	return in, out, ok && ok2
}

// isTerminalType tells whether a value of TERM is fit for a box: a short word.
func isTerminalType(s string) bool {
	return s != "" && len(s) <= 64 && s[0] != '-' && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+_-", r)
	})
}

// attach turns the terminal over to the session until restore is called.
func attach(ctx context.Context, in, out *os.File, req *provider.ExecRequest) (restore func(), err error) {
	size, err := sizeOf(out)
	if err != nil {
		return nil, err
	}
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("set the terminal to raw mode: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	resize, ended := make(chan provider.TTYSize), make(chan struct{})
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		defer close(ended)
		defer signal.Stop(changed)
		follow(ctx, changed, out, resize)
	}()
	req.TTY, req.Resize = &size, resize
	if t := os.Getenv("TERM"); isTerminalType(t) {
		req.Env = append(req.Env, "TERM="+t)
	}
	return func() {
		cancel()
		<-ended
		term.Restore(int(in.Fd()), old) //nolint:errcheck // nothing else can be done for the terminal
		io.WriteString(out, resetModes) //nolint:errcheck // as above
	}, nil
}

// resetModes undoes what a program that died in the box may have left on:
// attributes, a hidden cursor, bracketed paste and mouse reports
// (ECMA-48 SGR, DEC private modes 25, 2004, 1000, 1002, 1003, 1006).
const resetModes = "\x1b[0m\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l"

// follow sends the terminal's size whenever it changes.
func follow(ctx context.Context, changed <-chan os.Signal, out *os.File, resize chan<- provider.TTYSize) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		size, err := sizeOf(out)
		if err != nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case resize <- size:
		}
	}
}

func sizeOf(f *os.File) (provider.TTYSize, error) {
	cols, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return provider.TTYSize{}, fmt.Errorf("ask for the terminal's size: %w", err)
	}
	return provider.TTYSize{Cols: uint16(min(cols, 1<<16-1)), Rows: uint16(min(rows, 1<<16-1))}, nil
}
