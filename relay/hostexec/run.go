package hostexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/madarco/agentbox/core/capped"
	"github.com/madarco/agentbox/core/wire"
)

const (
	// DefaultTimeout is how long a program may run unless the command says more.
	DefaultTimeout = 2 * time.Minute
	// DefaultMaxOutput is how many bytes of each stream are kept.
	DefaultMaxOutput = 8 << 20
	// killAfter is how long a program has between SIGTERM and SIGKILL.
	killAfter = 5 * time.Second
)

// Command is one run of a program.
type Command struct {
	Program Program
	// Args follow the program's name; none comes from a box unless a closed
	// table placed it.
	Args []string
	// Stdin is what it reads; nil means that there is nothing to read.
	Stdin []byte
	// Inherit names variables of the relay's own environment that it gets beside
	// those that every program gets; a name that ends in "*" is a prefix.
	Inherit []string
	// Env are "NAME=value" settings that win over what is inherited.
	Env []string
	// Timeout is DefaultTimeout if zero, MaxOutput DefaultMaxOutput.
	Timeout   time.Duration
	MaxOutput int
	// Started, if set, is called before the program does anything; when it
	// fails, the program does not run.
	Started func(pid int) error
}

// Result is how a program ended.
type Result struct {
	// ExitCode is the program's own, 128 and the signal's number when one ended
	// it, wire.ExitTimeout after the deadline, wire.ExitNotFound when it could
	// not be started.
	ExitCode int
	// Stdout and Stderr are what it printed, with a mark where it was cut; the
	// end of Stderr says what we have to say.
	Stdout, Stderr []byte
}

// Envelope is the result as a box gets it.
func (r Result) Envelope() wire.Envelope {
	return wire.Envelope{ExitCode: r.ExitCode, Stdout: string(r.Stdout), Stderr: string(r.Stderr)}
}

// OK tells whether the program said that all went well.
func (r Result) OK() bool { return r.ExitCode == wire.ExitOK }

// Run runs a program to its end, its deadline or that of ctx.
func (h *Host) Run(ctx context.Context, c Command) Result {
	if c.Program.path == "" {
		return Result{ExitCode: wire.ExitNotFound, Stderr: []byte(ErrNotFound.Error() + "\n")}
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MaxOutput == 0 {
		c.MaxOutput = DefaultMaxOutput
	}
	closed, err := h.projects(ctx)
	if err != nil {
		return note(Result{ExitCode: wire.ExitFailed}, err.Error())
	}
	dir, err := os.MkdirTemp(h.dir, "call-*")
	if err != nil {
		return note(Result{ExitCode: wire.ExitFailed}, "make a folder for the program: "+err.Error())
	}
	defer os.RemoveAll(dir) //nolint:errcheck // New removes what is left
	bounded, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	p := prepare(bounded, c)
	p.cmd.WaitDelay = h.grace
	p.cmd.Dir, p.cmd.Env = dir, h.environment(c, dir, closed)
	if err = p.start(c.Started); err == nil {
		err = p.cmd.Wait()
	}
	r := Result{Stdout: kept(p.stdout), Stderr: kept(p.stderr)}
	if !p.cut {
		return ended(r, p.cmd, err)
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // those of its own that did not heed the first signal
	if ctx.Err() != nil {
		r.ExitCode = 128 + int(syscall.SIGTERM)
		return note(r, "it was ended, as nobody waits for it any more")
	}
	r.ExitCode = wire.ExitTimeout
	return note(r, fmt.Sprintf("it was ended after %s", c.Timeout))
}

// ended reads how a program ended that we did not end.
func ended(r Result, cmd *exec.Cmd, err error) Result {
	var startErr *startError
	var status syscall.WaitStatus
	if cmd.ProcessState != nil {
		status, _ = cmd.ProcessState.Sys().(syscall.WaitStatus)
	}
	switch {
	case errors.As(err, &startErr):
		r.ExitCode = startErr.code
		return note(r, startErr.Error())
	case cmd.ProcessState == nil:
		r.ExitCode = wire.ExitFailed
		return note(r, fmt.Sprint(err))
	case status.Signaled():
		r.ExitCode = 128 + int(status.Signal())
		return note(r, "it was ended by a signal: "+status.Signal().String())
	}
	r.ExitCode = status.ExitStatus()
	return r
}

// note adds a line of ours to what the program said.
func note(r Result, text string) Result {
	if len(r.Stderr) > 0 && !bytes.HasSuffix(r.Stderr, []byte("\n")) {
		r.Stderr = append(r.Stderr, '\n')
	}
	r.Stderr = append(r.Stderr, "agentbox: "+text+"\n"...)
	return r
}

// kept is what a stream holds; where it was cut it ends with a whole character
// and says so.
func kept(b *capped.Buffer) []byte {
	if !b.Cut() {
		return b.Bytes()
	}
	text := b.Bytes()
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if last := text[len(text)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				text = text[:len(text)-i]
			}
			break
		}
	}
	return append(text, fmt.Sprintf("\n[agentbox: cut after %d bytes]\n", b.Max)...)
}

// startError is a program that did not begin.
type startError struct {
	code int
	err  error
}

func (e *startError) Error() string { return e.err.Error() }

// shell runs holdScript, whose text is fixed: it becomes the program once a
// line came on descriptor 3, and ends when that is closed without one.
const (
	shell      = "/bin/sh"
	holdScript = `read -r _ <&3 || exit 126; exec 3<&-; exec "$@"`
)

// process is one that runs, or is about to.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr *capped.Buffer
	// cut tells, once the process was waited for, that we ended it.
	cut bool
}

// prepare makes the process: a session of its own, so that it has no terminal
// to ask on and can be ended whole.
func prepare(ctx context.Context, c Command) *process {
	argv := append([]string{c.Program.path}, c.Args...)
	if c.Started != nil {
		argv = append([]string{shell, "-c", holdScript, "agentbox"}, argv...)
	}
	p := &process{
		cmd:    exec.CommandContext(ctx, argv[0], argv[1:]...),
		stdout: &capped.Buffer{Max: c.MaxOutput}, stderr: &capped.Buffer{Max: c.MaxOutput},
	}
	if c.Stdin != nil {
		p.cmd.Stdin = bytes.NewReader(c.Stdin)
	}
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.cmd.Cancel = func() error {
		if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM); err != nil {
			return os.ErrProcessDone
		}
		p.cut = true
		return nil
	}
	return p
}

// start starts the process and, where its id must be known first, holds it
// until started has returned.
func (p *process) start(started func(pid int) error) error {
	if started == nil {
		return begin(p.cmd)
	}
	hold, release, err := os.Pipe()
	if err != nil {
		return &startError{wire.ExitFailed, fmt.Errorf("make a pipe: %w", err)}
	}
	defer release.Close() //nolint:errcheck // closed without a line, the program does not run
	p.cmd.ExtraFiles = []*os.File{hold}
	err = begin(p.cmd)
	_ = hold.Close()
	if err != nil {
		return err
	}
	err = started(p.cmd.Process.Pid)
	if err == nil {
		_, err = io.WriteString(release, "\n")
	}
	if err != nil {
		_ = release.Close()
		_ = p.cmd.Wait()
		return &startError{wire.ExitFailed, fmt.Errorf("write down the process: %w", err)}
	}
	return nil
}

func begin(cmd *exec.Cmd) error {
	err := cmd.Start()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &startError{wire.ExitFailed, fmt.Errorf("start the program: %w", err)}
	}
	return &startError{wire.ExitNotFound, fmt.Errorf("start the program: %w", err)}
}

// inherited is what every program gets of the relay's environment: who and where
// the user is, and how the network is reached.
var inherited = []string{
	"HOME", "USER", "LOGNAME", "LANG", "LC_*", "TZ", "TMPDIR", "XDG_*", "DBUS_SESSION_BUS_ADDRESS", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
}

// environment is the program's. Its PATH is ours without what a box works on;
// git, should it call that, finds no repository above dir.
func (h *Host) environment(c Command, dir string, closed []string) []string {
	path := slices.DeleteFunc(slices.Clone(h.path), func(folder string) bool { return !outside(closed, folder) })
	env := []string{"PATH=" + strings.Join(path, ":"), "PWD=" + dir, "GIT_CEILING_DIRECTORIES=" + h.dir}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if listed(inherited, name) || listed(c.Inherit, name) {
			env = append(env, kv)
		}
	}
	return append(env, c.Env...)
}

func listed(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		prefix, isPrefix := strings.CutSuffix(n, "*")
		return n == name || isPrefix && strings.HasPrefix(name, prefix)
	})
}
