package session

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/madarco/agentbox/core/atomicfile"
	wire "github.com/madarco/agentbox/core/session"
	"github.com/madarco/agentbox/ctl/proc"
)

// take reads a request that Stage left, and removes it.
func (s Sessions) take(n wire.Name) (wire.Request, error) {
	f, err := os.Open(s.request(n))
	if err != nil {
		return wire.Request{}, fmt.Errorf("session %s: nothing is to be started: %w", n, err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return wire.Request{}, err
	}
	return wire.ReadRequest(f)
}

// Run runs the command that Stage left, on this process's streams, and returns
// its exit code. A command whose screen need not be held takes this process's
// place, and Run returns for errors only.
func (s Sessions) Run(n wire.Name) (int, error) {
	r, err := s.take(n)
	if err != nil {
		return 0, err
	}
	if err := os.Chdir(string(r.Dir)); err != nil {
		return 0, err
	}
	program, err := exec.LookPath(r.Argv[0])
	if err != nil {
		return 0, fmt.Errorf("%w: %s", ErrNoProgram, r.Argv[0])
	}
	env := environ(r.Env)
	if !r.Hold {
		if os.Getenv("TMUX") == "" { // else tmux knows it
			if err := atomicfile.Write(s.pid(n), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
				return 0, err
			}
		}
		return 0, fmt.Errorf("run %s: %w", r.Argv[0], syscall.Exec(program, r.Argv, env))
	}
	before, _ := unix.IoctlGetTermios(int(os.Stdin.Fd()), unix.TCGETS) // nil without a terminal
	code, err := attend(&exec.Cmd{
		Path: program, Args: r.Argv, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", r.Argv[0], err)
	}
	if err := atomicfile.Write(s.exit(n), []byte(strconv.Itoa(code)+"\n"), 0o600); err != nil {
		return code, err
	}
	if code != 0 && before != nil {
		hold(before, r.Argv[0], code)
	}
	return code, nil
}

// environ is the box's environment with entries on top. A session is no part
// of the one that it was started from.
func environ(entries []string) []string {
	env := os.Environ()
	for _, e := range entries {
		name, _, _ := strings.Cut(e, "=")
		kept := env[:0:0]
		for _, old := range env {
			if !strings.HasPrefix(old, name+"=") {
				kept = append(kept, old)
			}
		}
		env = append(kept, e)
	}
	return env
}

// attend runs a command to its end. What a terminal sends to both of them is
// the command's to act on; what is sent to this process alone is passed on.
func attend(cmd *exec.Cmd) (code int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := proc.Start(cmd); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			if sig == syscall.SIGTERM {
				cmd.Process.Signal(sig) //nolint:errcheck // it may have ended
			}
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 0, err
			}
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if status.Signaled() {
				return 128 + int(status.Signal()), nil // as shells count
			}
			return status.ExitStatus(), nil
		}
	}
}

// hold keeps the screen until someone presses Enter. The command may have left
// the terminal in a mode in which that does not end a line.
func hold(before *unix.Termios, program string, code int) {
	unix.IoctlSetTermios(int(os.Stdin.Fd()), unix.TCSETSF, before) //nolint:errcheck // the line below then needs Ctrl-J
	fmt.Fprintf(os.Stdout, "\r\n\x1b[0m\x1b[?25h[%s ended with code %d; Enter closes this]", program, code)
	bufio.NewReader(io.LimitReader(os.Stdin, 4096)).ReadString('\n') //nolint:errcheck // the end of the terminal ends it too
}
