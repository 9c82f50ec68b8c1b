package gitgate

import (
	"os"
	"testing"

	"github.com/madarco/agentbox/core"
)

func TestTryLeavesNothing(t *testing.T) {
	home := core.Home(t.TempDir())
	h, err := New(home, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Try(t.Context()); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(string(home))
	if err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	h.run.git = "/bin/false"
	if err := h.Try(t.Context()); err == nil {
		t.Error("a git that does nothing passed")
	}
	if _, err := New(home, Options{Git: "git"}); err == nil {
		t.Error("a git by a name was taken")
	}
}
