// Package proc starts the programs that the daemon runs in the box.
//
// Invariants:
//   - A program is killed together with what it started: each leads a process
//     group of its own.
//   - When memory runs out the kernel takes a program before the daemon: each
//     runs with a higher oom_score_adj.
package proc

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// oomScore is above what the container gives to process 1 and the daemon (300).
// Raising the score needs no privilege, lowering it does.
const oomScore = 600

// drain bounds the wait for a pipe that an outliving descendant holds open.
const drain = 2 * time.Second

// Command prepares a program that ends with ctx. Its environment is env alone.
func Command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append([]string{}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = drain
	return cmd
}

// Start starts the command and raises its oom_score_adj; what it starts in turn
// inherits the score. The caller waits for its end.
func Start(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	score := "/proc/" + strconv.Itoa(cmd.Process.Pid) + "/oom_score_adj"
	// A program that has ended by now has no score to raise.
	_ = os.WriteFile(score, []byte(strconv.Itoa(oomScore)), 0)
	return nil
}
