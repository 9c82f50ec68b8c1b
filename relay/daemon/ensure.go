package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/client"
	"github.com/madarco/agentbox/relay/proc"
)

// Start says how to start a detached relay.
type Start struct {
	Home core.Home
	// Version of the relay that is wanted; one of another version is replaced.
	Version string
	// Command is the relay's command line; this program with "relay serve" if
	// empty.
	Command []string
	// Typed tells that the user asked for the relay by name: then it gets the
	// whole environment.
	Typed bool
}

const (
	// askTime bounds a look at whether a relay answers.
	askTime = 2 * time.Second
	// startTime bounds a start, stopTime a stop.
	startTime = 15 * time.Second
	stopTime  = 20 * time.Second
	// look is the pause between two looks at something that changes soon.
	look = 10 * time.Millisecond
	// maxLog is where a log is put aside at a start.
	maxLog = 4 << 20
)

// Ensure makes sure that a relay of this version answers, and starts one
// detached if none does. It may be called by many at the same time.
func Ensure(ctx context.Context, s Start) (wire.Health, error) {
	if h, err := Status(ctx, s.Home); err == nil && h.Version == s.Version {
		return h, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTime+stopTime)
	defer cancel()
	unlock, err := startLock(ctx, s.Home)
	if err != nil {
		return wire.Health{}, err
	}
	defer unlock()
	h, err := Status(ctx, s.Home) // another starter may have been first
	switch {
	case err == nil && h.Version == s.Version:
		return h, nil
	case err == nil:
		if err := Stop(ctx, s.Home); err != nil {
			return h, err
		}
	case errors.Is(err, client.ErrStopping):
		if _, err := untilUnlocked(ctx, s.Home); err != nil {
			return h, err
		}
	case !errors.Is(err, client.ErrNotRunning):
		return h, err
	}
	return launch(ctx, s)
}

// startLock lets one starter at a time through.
func startLock(ctx context.Context, home core.Home) (unlock func(), err error) {
	if err := home.Create(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(home.OperatorSocket()), 0o700); err != nil {
		return nil, fmt.Errorf("make the relay's folder: %w", err)
	}
	lock := flock.New(filepath.Join(filepath.Dir(home.OperatorSocket()), "start.lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, look); err != nil {
		return nil, fmt.Errorf("wait for another start of the relay: %w", err)
	}
	return func() { _ = lock.Unlock() }, nil
}

// launch starts the process and waits until it answers.
func launch(ctx context.Context, s Start) (wire.Health, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if len(s.Command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return wire.Health{}, fmt.Errorf("find this program: %w", err)
		}
		s.Command = []string{self, "relay", "serve"}
	}
	log, err := openLog(s.Home)
	if err != nil {
		return wire.Health{}, err
	}
	defer log.Close() //nolint:errcheck // the child has it
	end, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return wire.Health{}, err
	}
	cmd := exec.Command(s.Command[0], s.Command[1:]...) //nolint:gosec,noctx // our own program, which outlives us
	cmd.Dir, cmd.Env = "/", environment(s.Home, s.Typed)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return wire.Health{}, fmt.Errorf("start the relay: %w", err)
	}
	return await(ctx, s, cmd.Process.Pid, end)
}

// await asks until the relay answers, its process ends, or ctx does.
func await(ctx context.Context, s Start, pid int, logFrom int64) (wire.Health, error) {
	for {
		h, err := Status(ctx, s.Home)
		if err == nil {
			return h, nil
		}
		var status syscall.WaitStatus
		if done, _ := syscall.Wait4(pid, &status, syscall.WNOHANG, nil); done == pid {
			return h, fmt.Errorf("the relay ended at once: %s", lastWords(s.Home, logFrom))
		}
		if err := pause(ctx); err != nil {
			return h, fmt.Errorf("the relay does not answer: %w; its log is %s", err, s.Home.RelayLog())
		}
	}
}

func pause(ctx context.Context) error {
	timer := time.NewTimer(look)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lastWords is the last line that a failed start has logged.
func lastWords(home core.Home, from int64) string {
	f, err := os.Open(home.RelayLog())
	if err != nil {
		return err.Error()
	}
	defer f.Close() //nolint:errcheck // only read
	const most = 16 << 10
	text := make([]byte, most)
	n, _ := f.ReadAt(text, from)
	lines := strings.Split(strings.TrimSpace(string(text[:n])), "\n")
	return core.Untrusted(lines[len(lines)-1]).QuoteMax(500)
}

// openLog opens the log to append to, and puts a long one aside.
func openLog(home core.Home) (*os.File, error) {
	path := home.RelayLog()
	if st, err := os.Stat(path); err == nil && st.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("put the relay's log aside: %w", err)
		}
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the relay's log: %w", err)
	}
	return log, nil
}

// safePath is where an auto-started relay looks for git and its helpers: the
// systems' own folders, none that a project could have put on PATH.
const safePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/homebrew/bin:/opt/local/bin:/run/current-system/sw/bin:/snap/bin"

// inherited lists what an auto-started relay takes from the environment:
// home, locale, display and sockets of agents.
var inherited = []string{
	"HOME", "LANG", "LANGUAGE", "TZ", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
	"SSH_AUTH_SOCK", "GPG_AGENT_INFO",
}

// environment is the relay's. What it is told by the home goes in either case.
func environment(home core.Home, typed bool) []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if name != "AGENTBOX_HOME" && (typed || slices.Contains(inherited, name) || strings.HasPrefix(name, "LC_")) {
			env = append(env, kv)
		}
	}
	if !typed {
		env = append(env, "PATH="+safePath)
	}
	return append(env, "AGENTBOX_HOME="+string(home))
}

// Status asks the relay of a home how it is. The error is client.ErrNotRunning
// when none answers.
func Status(ctx context.Context, home core.Home) (wire.Health, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c := client.New(home)
	defer c.Close()
	return c.Health(ctx)
}

// Stop ends the relay of a home, and returns once it is gone; none is no error.
// A relay that does not answer is ended by its process.
func Stop(ctx context.Context, home core.Home) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	c := client.New(home)
	defer c.Close()
	pid, started := readPID(home)
	ask, cancelAsk := context.WithTimeout(ctx, askTime)
	defer cancelAsk()
	err := c.Shutdown(ask)
	leaving := errors.Is(err, client.ErrNotRunning) || errors.Is(err, client.ErrStopping)
	if err != nil && !leaving && ctx.Err() == nil {
		if err := proc.End(ctx, pid, started); err != nil {
			return err
		}
	}
	gone, err := untilUnlocked(ctx, home)
	if err == nil && !gone {
		if err := proc.End(context.WithoutCancel(ctx), pid, started); err != nil {
			return err
		}
		gone, err = untilUnlocked(context.WithoutCancel(ctx), home)
	}
	if err == nil && !gone {
		err = fmt.Errorf("the relay does not end; its pid is in %s", home.RelayPID())
	}
	return err
}

// untilUnlocked waits until no relay serves; false when ctx ends first.
func untilUnlocked(ctx context.Context, home core.Home) (bool, error) {
	if _, err := os.Stat(filepath.Dir(home.OperatorSocket())); errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	lock := serveLock(home)
	taken, err := lock.TryLockContext(ctx, look)
	if taken {
		return true, lock.Unlock()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return false, err
}

// readPID reads what writePID wrote; zero when there is nothing of use.
func readPID(home core.Home) (pid int, started string) {
	text, err := os.ReadFile(home.RelayPID())
	if err != nil {
		return 0, ""
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	if pid, err = strconv.Atoi(first); err != nil {
		return 0, ""
	}
	return pid, strings.TrimSpace(rest)
}

// Restart is Stop and then Ensure.
func Restart(ctx context.Context, s Start) (wire.Health, error) {
	if err := Stop(ctx, s.Home); err != nil {
		return wire.Health{}, err
	}
	return Ensure(ctx, s)
}
