package gitgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/capped"
	"github.com/madarco/agentbox/relay/budget"
)

// runner starts every git process of this package. There is no other way.
type runner struct {
	git string // absolute
}

// ErrNoGit: no usable git program was found.
var ErrNoGit = errors.New("git is not installed; install it, for example with: apt-get install git")

// ErrFull: there is no room left where git had to write.
var ErrFull = errors.New("the disk is full")

// findGit resolves the git program once. Only absolute folders of PATH count,
// so that a program in the current folder is never taken.
func findGit() (string, error) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		path := filepath.Join(dir, "git")
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", ErrNoGit
}

// bounds are what a child that reads a box's bytes may use.
type bounds struct {
	memory, file int64 // bytes
	cpu          int64 // seconds
}

// importBounds suit the largest pack that passes the scanner; serveBounds
// also a whole clone.
var (
	importBounds = bounds{memory: 1536 << 20, file: 2 << 30, cpu: 20}
	serveBounds  = bounds{memory: 4 << 30, file: 2 << 30, cpu: 300}
)

// The deadlines of children, by what they do.
const (
	quick    = 30 * time.Second
	capture  = 2 * time.Minute
	transfer = 10 * time.Minute
	network  = time.Hour // the user's line may be slow, and the caller gives up earlier
)

// command describes one git process.
type command struct {
	// gitDir is passed as --git-dir; workDir is the current folder, "/" if empty.
	gitDir, workDir string
	// config are "key=value" settings, placed on the command line: no secrets.
	config []string
	args   []string
	env    []string
	stdin  io.Reader
	// as is whose process it is; nil means ours.
	as *syscall.Credential
	// limits apply to the child and all of its own.
	limits   *bounds
	deadline time.Duration
	// aside lets all else go first, and everyone read what the child writes.
	aside bool
	// started, if set, is called before git does anything; the command then
	// has no standard input.
	started func(pid int) error
}

// gitError is a git process that failed. Its text is git's and may quote what
// a box or a remote chose; no user part of an address is in it.
type gitError struct {
	verb   string
	code   int // -1 when a signal ended it
	stderr core.Untrusted
}

func (e *gitError) Error() string {
	how := fmt.Sprintf("exit status %d", e.code)
	if e.code < 0 {
		how = "it was killed"
	}
	if e.stderr == "" {
		return fmt.Sprintf("git %s: %s", e.verb, how)
	}
	return fmt.Sprintf("git %s: %s: %s", e.verb, how, e.stderr.Quote())
}

// exitCode is the code of a gitError, or -1.
func exitCode(err error) int {
	var g *gitError
	if errors.As(err, &g) {
		return g.code
	}
	return -1
}

const (
	outputLimit = 256 << 20 // of listings that are kept whole
	stderrLimit = 16 << 10
)

var errOutputTooLong = errors.New("git printed more than can be right")

// run returns what the process printed, at most outputLimit bytes.
func (r *runner) run(ctx context.Context, c command) ([]byte, error) {
	var out bytes.Buffer
	err := r.stream(ctx, c, func(stdout io.Reader) error {
		n, err := io.Copy(&out, io.LimitReader(stdout, outputLimit+1))
		if err == nil && n > outputLimit {
			err = errOutputTooLong
		}
		return err
	})
	return out.Bytes(), err
}

// line is run for a command that prints one line, without its line feed.
func (r *runner) line(ctx context.Context, c command) (string, error) {
	out, err := r.run(ctx, c)
	return strings.TrimSuffix(string(out), "\n"), err
}

// pipe copies what the process prints to w.
func (r *runner) pipe(ctx context.Context, c command, w io.Writer) error {
	return r.stream(ctx, c, func(stdout io.Reader) error {
		_, err := io.Copy(w, stdout)
		return err
	})
}

// stream runs the process and lets read consume what it prints to the end. An
// error of read, or of the context, ends the process with all of its own.
func (r *runner) stream(ctx context.Context, c command, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.deadline)
	defer cancel()
	cmd, stderr := r.prepare(ctx, c)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("git %s: %w", c.args[0], err)
	}
	release, err := holdBack(cmd, c.started)
	if err != nil {
		return fmt.Errorf("git %s: %w", c.args[0], err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start git %s: %w", c.args[0], err)
	}
	// A descendant that left the group may hold the pipe open.
	defer context.AfterFunc(ctx, func() { _ = stdout.Close() })()
	err = release(cmd.Process.Pid)
	if err == nil {
		err = read(stdout)
	}
	expired := ctx.Err()
	if err != nil {
		cancel() // ends the group
	}
	waitErr := cmd.Wait()
	if st := cmd.ProcessState; st != nil {
		budget.Charge(ctx, st.UserTime()+st.SystemTime()) // with those of its own that it waited for
	}
	if errors.Is(waitErr, exec.ErrWaitDelay) {
		waitErr = nil // git is done; something it started, such as an ssh master, goes on
	}
	switch {
	case expired != nil:
		return fmt.Errorf("git %s: %w", c.args[0], expired)
	case err != nil:
		return err
	case waitErr == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("git %s: %w", c.args[0], ctx.Err())
	}
	return r.failure(c, waitErr, stderr)
}

func (r *runner) failure(c command, err error, stderr *capped.Buffer) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return fmt.Errorf("git %s: %w", c.args[0], err)
	}
	failed := &gitError{c.args[0], exit.ExitCode(), core.Untrusted(withoutUsers(strings.TrimSpace(stderr.String())))}
	if words := stderr.String(); strings.Contains(words, "No space left on device") || strings.Contains(words, "Out of diskspace") {
		return fmt.Errorf("%w: %w", ErrFull, failed)
	}
	return failed
}

// prepare builds the process: a session of its own, so that it has no terminal
// to ask on and can be ended whole; under limits through a shell whose text is
// fixed, because a limit that is set after the start comes too late.
func (r *runner) prepare(ctx context.Context, c command) (*exec.Cmd, *capped.Buffer) {
	argv := []string{r.git}
	if c.gitDir != "" {
		argv = append(argv, "--git-dir="+c.gitDir)
	}
	for _, setting := range c.config {
		argv = append(argv, "-c", setting)
	}
	argv = append(argv, c.args...)
	if c.limits != nil {
		argv = append([]string{
			shell, "-c", limitScript, "git",
			strconv.FormatInt(c.limits.memory>>10, 10), strconv.FormatInt(c.limits.cpu, 10), strconv.FormatInt(c.limits.file>>9, 10),
		}, argv...)
	}
	if c.aside {
		argv = append([]string{shell, "-c", asideScript, "git"}, argv...)
	}
	if c.started != nil {
		argv = append([]string{shell, "-c", holdScript, "git"}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = c.env
	cmd.Dir = c.workDir
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.Stdin = c.stdin
	// Git says what is wrong first, and a box must not fill the host's memory by
	// making it complain.
	stderr := &capped.Buffer{Max: stderrLimit}
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: c.as}
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	cmd.WaitDelay = 5 * time.Second
	return cmd, stderr
}

const (
	shell = "/bin/sh"
	// limitScript bounds memory (KiB), processor time (s) and files (blocks of
	// 512 bytes) of what it becomes. A bound that cannot be set because a
	// tighter one holds already is fine.
	limitScript = `m=$1 t=$2 f=$3; shift 3
ulimit -c 0
ulimit -v "$m" 2>/dev/null || [ "$(ulimit -v)" -le "$m" ] || exit 126
ulimit -t "$t" 2>/dev/null || [ "$(ulimit -t)" -le "$t" ] || exit 126
ulimit -f "$f" 2>/dev/null || [ "$(ulimit -f)" -le "$f" ] || exit 126
exec "$@"`
	// asideScript changes how the child is scheduled and what its files allow.
	asideScript = `umask 022; exec nice -n 10 "$@"`
	// holdScript waits for a line on its standard input, or ends with it.
	holdScript = `read -r _ && exec "$@"`
)

// killGroup ends whatever is left of a child's session.
func killGroup(pid int) error {
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// holdBack makes the child wait until started has returned, so that whoever
// must write the process id down does so before git does anything.
func holdBack(cmd *exec.Cmd, started func(pid int) error) (release func(pid int) error, err error) {
	if started == nil {
		return func(int) error { return nil }, nil
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return func(pid int) error {
		if err := started(pid); err != nil {
			return errors.Join(err, stdin.Close())
		}
		_, err := io.WriteString(stdin, "\n")
		return errors.Join(err, stdin.Close())
	}, nil
}
