package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"github.com/madarco/agentbox/core/provider"
)

// noDetach is a key sequence that nobody types: the engine's default, Ctrl-P
// Ctrl-Q, would swallow every shell's "previous command".
const noDetach = "ctrl-],ctrl-^,ctrl-],ctrl-^,ctrl-],ctrl-^"

// Exec runs a command in a running container and returns its exit code. The
// error wraps provider.ErrNotRunning when nothing runs there.
//
// When ctx ends, the connection is closed and Exec returns its cause at once;
// the engine has no way to end the command itself, so one that must not
// outlive its caller reads its standard input until it closes. A read of
// req.Stdin that is under way when the command ends is left to finish alone.
func (e *Engine) Exec(ctx context.Context, container string, req provider.ExecRequest) (int, error) {
	size := client.ConsoleSize{}
	if req.TTY != nil {
		size = client.ConsoleSize{Height: uint(req.TTY.Rows), Width: uint(req.TTY.Cols)}
	}
	created, err := e.api.ExecCreate(ctx, container, client.ExecCreateOptions{
		User:         req.User,
		TTY:          req.TTY != nil,
		ConsoleSize:  size,
		AttachStdin:  req.Stdin != nil,
		AttachStdout: true,
		AttachStderr: true,
		DetachKeys:   noDetach,
		Env:          req.Env,
		WorkingDir:   req.WorkDir,
		Cmd:          req.Argv,
	})
	if err != nil {
		err = e.failed(ctx, "run a command in "+container, err)
		if errors.Is(err, ErrConflict) {
			err = fmt.Errorf("%w: %w", provider.ErrNotRunning, err)
		}
		return 0, err
	}
	attached, err := e.api.ExecAttach(ctx, created.ID, client.ExecAttachOptions{TTY: req.TTY != nil, ConsoleSize: size})
	if err != nil {
		return 0, e.failed(ctx, "run a command in "+container, err)
	}
	defer attached.Close()
	if err := e.converse(ctx, created.ID, attached.HijackedResponse, req); err != nil {
		return 0, fmt.Errorf("run a command in %s: %w", container, err)
	}
	return e.exitCode(ctx, created.ID)
}

// converse moves the command's streams until its output ends.
func (e *Engine) converse(ctx context.Context, id string, conn client.HijackedResponse, req provider.ExecRequest) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var sizes sync.WaitGroup
	defer sizes.Wait()
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { conn.Conn.Close() })()

	if req.Stdin != nil {
		go func() {
			if _, err := io.Copy(conn.Conn, reading{req.Stdin, cancel}); err == nil {
				conn.CloseWrite() //nolint:errcheck // the command may have gone
			}
		}()
	}
	if req.TTY != nil {
		sizes.Go(func() { e.resize(ctx, id, *req.TTY, req.Resize) })
	}
	stdout, stderr := orDiscard(req.Stdout), orDiscard(req.Stderr)
	var err error
	if req.TTY != nil {
		_, err = io.Copy(stdout, conn.Reader)
	} else {
		err = demultiplex(stdout, stderr, conn.Reader)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// reading passes a failure of the caller's reader on, which io.Copy could not
// tell from a command that reads no more.
type reading struct {
	io.Reader
	failed context.CancelCauseFunc
}

func (r reading) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.failed(fmt.Errorf("read the command's input: %w", err))
	}
	return n, err
}

// resizeRetry spaces the first attempts: engines before API 1.42 take no size
// at the start, and refuse one until the command runs.
const (
	resizeRetry = 10 * time.Millisecond
	resizeTries = 100
)

func (e *Engine) resize(ctx context.Context, id string, size provider.TTYSize, later <-chan provider.TTYSize) {
	set := func() error {
		_, err := e.api.ExecResize(ctx, id, client.ExecResizeOptions{Height: uint(size.Rows), Width: uint(size.Cols)})
		return err
	}
	retry := time.NewTicker(resizeRetry)
	defer retry.Stop()
	for range resizeTries {
		if set() == nil {
			break
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return
		}
	}
	for {
		select {
		case s, open := <-later:
			if !open {
				return
			}
			size = s
			set() //nolint:errcheck // the command may have ended; its output says so
		case <-ctx.Done():
			return
		}
	}
}

// exitPoll spaces the questions for an exit code: output ends a moment before
// the engine has noted it.
const exitPoll = 5 * time.Millisecond

func (e *Engine) exitCode(ctx context.Context, id string) (int, error) {
	poll := time.NewTicker(exitPoll)
	defer poll.Stop()
	for {
		got, err := e.api.ExecInspect(ctx, id, client.ExecInspectOptions{})
		if err != nil {
			return 0, e.failed(ctx, "ask for a command's exit code", err)
		}
		if !got.Running {
			return got.ExitCode, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for a command's exit code: %w", context.Cause(ctx))
		}
	}
}

// errStream reports bytes that are not the engine's stream format.
var errStream = errors.New("the engine's output stream is malformed")

// demultiplex splits what an exec without a terminal sends: frames of an
// 8-byte head (stream, three zeros, big-endian length) and that many bytes,
// as the engine API describes under ContainerAttach. Frames are copied as they
// come; one that is cut short is an error.
func demultiplex(stdout, stderr io.Writer, from io.Reader) error {
	var head [8]byte
	for {
		switch _, err := io.ReadFull(from, head[:]); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", errStream, err)
		}
		to := stdout
		switch head[0] {
		case 0, 1:
		case 2:
			to = stderr
		default:
			return fmt.Errorf("%w: stream %d", errStream, head[0])
		}
		length := int64(binary.BigEndian.Uint32(head[4:]))
		if n, err := io.CopyN(to, from, length); errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: a frame ends after %d of %d bytes", errStream, n, length)
		} else if err != nil {
			return err
		}
	}
}
