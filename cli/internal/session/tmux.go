package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/agents"
	"github.com/madarco/agentbox/core/capped"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/session"
)

// ctl is the program in the box that keeps its sessions.
const ctl = "agentbox-ctl"

// Errors that callers branch on.
var (
	// ErrExists: a session of that name runs in the box.
	ErrExists = errors.New("such a session runs already")
	// ErrNone: the box has no such session.
	ErrNone = errors.New("no such session")
	// ErrNoTmux: the box's image has no tmux.
	ErrNoTmux = errors.New("its image has no tmux, which keeps sessions")
	// ErrNoProgram: the box's image lacks the program.
	ErrNoProgram = errors.New("its image has no such program")
)

// meanings are the exit codes of ctl that have words of ours.
var meanings = map[int]error{
	session.ExitExists: ErrExists, session.ExitNone: ErrNone, session.ExitNoTmux: ErrNoTmux, session.ExitNoProgram: ErrNoProgram,
}

// answerTimeout bounds a question to the box; the program that answers is the
// box's.
const answerTimeout = 30 * time.Second

// ask runs `agentbox-ctl session` in the box and returns what it prints.
func ask(ctx context.Context, in Execer, box core.Box, stdin []byte, words ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, fmt.Errorf("box %s did not answer within %s", box.Name, answerTimeout))
	defer cancel()
	out, errOut := capped.Buffer{Max: session.MaxList + 1}, capped.Buffer{Max: 4 << 10}
	code, err := in.Exec(ctx, box, provider.ExecRequest{
		Argv: append([]string{ctl, "session"}, words...), Stdin: bytes.NewReader(stdin), Stdout: &out, Stderr: &errOut,
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case code == 0:
		return out.Bytes(), nil
	case meanings[code] != nil:
		return nil, meanings[code]
	default:
		return nil, fmt.Errorf("%s session in the box ended with %d: %s", ctl, code, core.Untrusted(errOut.String()).Quote())
	}
}

// Start starts a session that nobody is attached to.
func Start(ctx context.Context, in Execer, box core.Box, r session.Request) error {
	return begin(ctx, in, box, r, "start")
}

func begin(ctx context.Context, in Execer, box core.Box, r session.Request, verb string) error {
	data, err := r.Encode()
	if err != nil {
		return &fail.Error{Err: err, Code: fail.Usage, Next: "put long text into a file of the project, and name that"}
	}
	if _, err := ask(ctx, in, box, data, verb); err != nil {
		return refused(box, r, err)
	}
	return nil
}

// refused says what to do when a session could not be started.
func refused(box core.Box, r session.Request, err error) error {
	e := &fail.Error{Err: fmt.Errorf("start session %s in box %s: %w", r.Name, box.Name, err), Code: fail.Failed}
	switch {
	case errors.Is(err, ErrExists):
		e.Code, e.Next = fail.Usage, Back(box, r.Name)
	case errors.Is(err, ErrNoTmux):
		e.Code, e.Next = fail.Unavailable, fmt.Sprintf("agentbox shell %s --no-tmux works without; the images full and lean have tmux", box.Name)
	case errors.Is(err, ErrNoProgram):
		e.Err = fmt.Errorf("run %s in box %s: %w", core.Untrusted(r.Argv[0]).Quote(), box.Name, err)
		e.Code, e.Next = fail.Unavailable, "install it in the box (agentbox shell "+string(box.Name)+")"
		if r.Agent != "" {
			e.Next = "the coding agents are in the full image: make one with --image full"
		}
	}
	return e
}

// Foreground runs a request on the streams, without a session, and waits for
// its end. A code other than zero is returned as fail.Exit.
func Foreground(ctx context.Context, s *streams.Streams, in Execer, box core.Box, r session.Request) error {
	r.Name, r.Hold = once(), false
	if err := begin(ctx, in, box, r, "stage"); err != nil {
		return err
	}
	err := stream(ctx, s, in, box, []string{ctl, "session", "run", string(r.Name)})
	if ctx.Err() != nil {
		// The engine ends no command whose caller has gone.
		Kill(context.WithoutCancel(ctx), in, box, r.Name) //nolint:errcheck // it may have ended
	}
	return err
}

// once is a name that is never given again, for what runs without a session:
// several of them may run side by side.
func once() session.Name {
	var raw [6]byte
	rand.Read(raw[:]) //nolint:errcheck // crypto/rand.Read never fails
	return session.Name("once-" + hex.EncodeToString(raw[:]))
}

// Back is the command that shows a session again.
func Back(box core.Box, n session.Name) string {
	if agent, ok := agents.Lookup(string(n)); ok {
		return fmt.Sprintf("agentbox %s attach %s", agent.Name, box.Name)
	}
	return fmt.Sprintf("agentbox attach %s --session %s", box.Name, n)
}

// CheckTerminal refuses where no terminal is: a session is drawn for one, and
// nobody could leave it. It is for callers that would do something first.
func CheckTerminal(s *streams.Streams, ref string) error {
	if _, _, ok := terminal(s); ok {
		return nil
	}
	if ref == "" {
		ref = "<box>"
	}
	return fail.Usagef("agentbox shell "+ref+" -- command… runs a command without one", "show a session: there is no terminal here")
}

// Attach shows a session until the user detaches, the session ends or ctx does.
// It takes a terminal, as CheckTerminal says.
// The code of a session's command that ended is returned as fail.Exit unless
// it is zero.
func Attach(ctx context.Context, s *streams.Streams, in Execer, box core.Box, n session.Name) error {
	if err := CheckTerminal(s, string(box.Name)); err != nil {
		return err
	}
	lease := once()
	release := hold(ctx, in, box, lease)
	defer release()
	req := provider.ExecRequest{Argv: []string{ctl, "session", "attach", "--lease", string(lease), string(n)}, Stdin: s.In, Stdout: s.Out, Stderr: s.ErrOut}
	code, err := onTerminal(ctx, s, in, box, req)
	if err != nil {
		return fmt.Errorf("show session %s of box %s: %w", n, box.Name, err)
	}
	left, err := List(ctx, in, box)
	if err == nil && slices.ContainsFunc(left, func(i session.Info) bool { return i.Name == n }) {
		s.Note("session %s goes on in box %s; back to it: %s", n, box.Name, Back(box, n))
		return nil
	}
	s.Note("session %s of box %s has ended", n, box.Name)
	return fail.Exited(code)
}

// hold keeps a command of the box waiting on an input that ends with release or
// with this process, however that ends; it then ends what has the lease. A box
// that can't hold it shows its sessions all the same.
func hold(ctx context.Context, in Execer, box core.Box, lease session.Name) (release func()) {
	ctx, cancel := context.WithCancel(ctx)
	input, end := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in.Exec(ctx, box, provider.ExecRequest{Argv: []string{ctl, "session", "hold", string(lease)}, Stdin: input}) //nolint:errcheck // as above
	}()
	return func() {
		cancel()
		end.Close() //nolint:errcheck // a pipe's writer has none to give
		<-ended
	}
}

// List are the sessions of the box.
func List(ctx context.Context, in Execer, box core.Box) ([]session.Info, error) {
	out, err := ask(ctx, in, box, nil, "list", "--json")
	var list []session.Info
	if err == nil {
		list, err = session.ReadList(out)
	}
	if err != nil {
		return nil, fmt.Errorf("list the sessions of box %s: %w", box.Name, err)
	}
	return list, nil
}

// Kill ends a session and what runs in it.
func Kill(ctx context.Context, in Execer, box core.Box, n session.Name) error {
	if _, err := ask(ctx, in, box, nil, "kill", string(n)); err != nil {
		return fail.New(fail.Failed, "agentbox shell ls "+string(box.Name), "end session %s of box %s: %w", n, box.Name, err)
	}
	return nil
}
