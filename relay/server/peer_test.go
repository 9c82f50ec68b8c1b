package server

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// TestOnlyTheUsersOwnProcessesAreTheUser: another uid, no pid, and a process that
// the kernel tells nothing about are somebody else.
func TestOnlyTheUsersOwnProcessesAreTheUser(t *testing.T) {
	ended := exec.Command(os.Args[0], "-test.run=^$")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		peer Peer
		ok   bool
	}{
		"this process":         {Peer{UID: os.Getuid(), PID: os.Getpid()}, true},
		"another user":         {Peer{UID: os.Getuid() + 1, PID: os.Getpid()}, false},
		"outside of our pids":  {Peer{UID: os.Getuid(), PID: 0}, false},
		"one that has ended":   {Peer{UID: os.Getuid(), PID: ended.Process.Pid}, runtime.GOOS != "linux"},
		"nobody in particular": {Peer{}, false},
	} {
		if err := tc.peer.check(); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
