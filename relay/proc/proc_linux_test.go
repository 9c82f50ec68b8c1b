package proc_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/madarco/agentbox/relay/proc"
)

// child starts a process in a group of its own that waits for ever.
func child(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

func TestEndEndsTheProcessItWasToldOf(t *testing.T) {
	cmd := child(t)
	started, err := proc.Started(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := proc.End(t.Context(), cmd.Process.Pid, started); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the process ended with %v", err)
	}
	if err := proc.End(t.Context(), cmd.Process.Pid, started); err != nil {
		t.Errorf("ending it again: %v", err)
	}
}

func TestEndSparesAnotherProcessOfThePid(t *testing.T) {
	cmd := child(t)
	for _, started := range []string{"", "long ago"} {
		if err := proc.End(t.Context(), cmd.Process.Pid, started); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the process is gone: %v", err)
	}
	if err := proc.End(t.Context(), 0, "x"); err != nil {
		t.Error(err)
	}
}

func TestStartedIsStable(t *testing.T) {
	a, err := proc.Started(os.Getpid())
	b, _ := proc.Started(os.Getpid())
	if err != nil || a == "" || a != b {
		t.Errorf("got %q, %q, %v", a, b, err)
	}
}
