package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// started reads field 22 of /proc/<pid>/stat, in clock ticks since boot, and
// the boot's id, as ticks begin anew with it.
func started(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	// The name, field 2, may hold anything; what follows the last ')' may not.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", errors.New("unknown form of /proc stat")
	}
	return string(bytes.TrimSpace(boot)) + "/" + string(fields[19]), nil
}

// end holds the process by a pidfd, so that what it signals is what it checked.
func end(ctx context.Context, pid int, startedThen string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	} else if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	if now, err := started(pid); err != nil || now != startedThen {
		return nil // gone, or another process by now
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		// The group first: git's helpers belong to the push as well.
		if err := unix.Kill(-pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		gone, err := await(ctx, fd)
		if err != nil || gone {
			return err
		}
	}
	return errors.New("it does not end")
}

// await waits until the process of a pidfd has ended, at most for grace.
func await(ctx context.Context, fd int) (gone bool, err error) {
	const step = 50 * time.Millisecond
	for waited := time.Duration(0); waited < grace; waited += step {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(step/time.Millisecond))
		switch {
		case n > 0:
			return true, nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return false, err
		case ctx.Err() != nil:
			return false, ctx.Err()
		}
	}
	return false, nil
}

func bound(pid int, b Bounds) error {
	for resource, most := range map[int]uint64{unix.RLIMIT_AS: b.Memory, unix.RLIMIT_CPU: b.CPU} {
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
			return err
		}
	}
	return nil
}
