// Package gitcmd is `agentbox-ctl git push|pull|fetch`: thin callers of the
// real git, which reaches the host through the box's own configuration, with
// exit codes that tell a person's no from a failure.
//
// Invariants:
//   - What runs is the real git by its absolute path, never a wrapper of the
//     agent's.
//   - Nothing is decided here: the host's relay judges what git sends.
package gitcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/relayenv"
)

// Op is one of git's commands that talk to a remote.
type Op string

// The operations.
const (
	Push  Op = "push"
	Pull  Op = "pull"
	Fetch Op = "fetch"
)

// Options say what to run.
type Options struct {
	Op Op
	// Dir is where git runs; empty means here.
	Dir string
	// Remote is passed before the arguments when it is set; otherwise git
	// chooses as ever.
	Remote string
	// Args go to git as they are.
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// argv is git's command line.
func argv(o Options, terminal bool) []string {
	var args []string
	if o.Dir != "" {
		args = append(args, "-C", o.Dir)
	}
	if o.Op == Push {
		// Without a refspec the current branch goes to its own name, whatever
		// it tracks.
		args = append(args, "-c", "push.default=current")
	}
	args = append(args, string(o.Op))
	if terminal && o.Op == Push && !slices.ContainsFunc(o.Args, func(a string) bool { return a == "-q" || a == "--quiet" || a == "--no-progress" }) {
		// Git looks whether its own stderr is a terminal, and it is a pipe here.
		args = append(args, "--progress")
	}
	if o.Remote != "" {
		args = append(args, o.Remote)
	}
	return append(args, o.Args...)
}

// Run runs git and returns the exit code: git's own, or 65 without a relay, 126
// without git, 10 when a person denied the push, 124 when nobody answered.
func Run(ctx context.Context, o Options) int {
	if relayenv.Lookup(relayenv.URL) == "" {
		fmt.Fprintf(o.Stderr, "agentbox-ctl: no relay configured: neither the environment nor %s sets %s; this works in a box that the host has set up\n", relayenv.Path(), relayenv.URL)
		return wire.ExitRefused
	}
	git, err := Path()
	if err != nil {
		fmt.Fprintf(o.Stderr, "agentbox-ctl: %v\n", err)
		return wire.ExitTransport
	}
	refusal := refusals{code: -1}
	cmd := exec.CommandContext(ctx, git, argv(o, isTerminal(o.Stderr))...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.Stdin, o.Stdout, o.Stderr
	if o.Op == Push {
		cmd.Stderr = io.MultiWriter(o.Stderr, &refusal)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(o.Stderr, "agentbox-ctl: start git: %v\n", err)
		return wire.ExitTransport
	}
	code := exitCode(cmd.Wait())
	if code != 0 && refusal.code >= 0 {
		return refusal.code
	}
	return code
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		return wire.ExitTransport
	}
	if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// refusals reads a push's words for refs that a person refused. Git prints
// " ! [remote rejected] <from> -> <to> (<reason>)" for each.
type refusals struct {
	line []byte
	code int // -1 while there is none
}

const maxLine = 4 << 10

func (r *refusals) Write(p []byte) (int, error) {
	for _, b := range p {
		switch {
		case b == '\n' || b == '\r':
			r.judge(string(r.line))
			r.line = r.line[:0]
		case len(r.line) < maxLine:
			r.line = append(r.line, b)
		}
	}
	return len(p), nil
}

func (r *refusals) judge(line string) {
	ref, rejected := strings.CutPrefix(strings.TrimSpace(line), "! [remote rejected] ")
	_, reason, found := strings.Cut(ref, " (")
	if !rejected || !found {
		return
	}
	if code, ok := wire.RefusalExit(strings.TrimSuffix(reason, ")")); ok {
		r.code = code
	}
}
