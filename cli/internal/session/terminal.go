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

	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

// onTerminal executes the request; where the streams are a terminal, on that.
func onTerminal(ctx context.Context, s *streams.Streams, in Execer, box core.Box, req provider.ExecRequest) (code int, err error) {
	if from, to, ok := terminal(s); ok {
		restore, broken := attach(ctx, from, to, &req)
		if broken != nil {
			return 0, broken
		}
		defer func() { restore(err) }()
	}
	code, err = in.Exec(ctx, box, req)
	return code, err
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
func attach(ctx context.Context, in, out *os.File, req *provider.ExecRequest) (restore func(failed error), err error) {
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
	return func(failed error) {
		cancel()
		<-ended
		term.Restore(int(in.Fd()), old) //nolint:errcheck // nothing else can be done for the terminal
		io.WriteString(out, resetModes) //nolint:errcheck // as above
		if failed != nil {
			io.WriteString(out, leaveScreen) //nolint:errcheck // as above
		}
	}, nil
}

// resetModes undoes what a program that died in the box may have left on:
// attributes, a hidden cursor, bracketed paste, mouse and focus reports, and
// reports of modified keys (ECMA-48 SGR, DEC private modes 25, 2004, 1000,
// 1002, 1003, 1006 and 1004, xterm's modifyOtherKeys).
const resetModes = "\x1b[0m\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[>4m"

// leaveScreen returns from the alternate screen (DEC private mode 1049), which
// only a program that came to its end has left itself. It moves the cursor, so
// it is for sessions that broke off.
const leaveScreen = "\x1b[?1049l\r\n"

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
