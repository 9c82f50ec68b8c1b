package sandboxdocker_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/provider"
	sandboxdocker "github.com/madarco/agentbox/sandbox-docker"
)

func TestTheTriesPassAndLeaveNothing(t *testing.T) {
	opts := options(t, endpoint(t))
	opts.StateDir = t.TempDir()
	p, err := sandboxdocker.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.EnsureImage(t.Context()); err != nil {
		t.Fatal(err)
	}
	tries := p.Tries()
	for n, try := range tries {
		if n > 0 && try.Needs != tries[0].Name {
			t.Errorf("%s would be tried on an engine that does not answer", try.Name)
		}
		found, err := try.Run(t.Context())
		if err != nil || found == "" {
			t.Errorf("%s: %q, %v", try.Name, found, err)
		}
	}
	if !slices.ContainsFunc(tries, func(t provider.Try) bool { return t.Name == "sealed box" }) {
		t.Error("no box is tried")
	}
	// Others make boxes on this engine meanwhile; those of the tries have a folder
	// of this provider bound.
	binds, err := exec.CommandContext(t.Context(), "docker", "ps", "-a", "--no-trunc", "--format", "{{.ID}} {{.Mounts}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(binds), opts.StateDir) {
		t.Errorf("a box is left: %s", binds)
	}
	if left, err := os.ReadDir(opts.StateDir); err != nil || len(left) > 0 {
		t.Errorf("left in the state folder: %v, %v", left, err)
	}
}

// TestWhatABoxLacksIsNamed: a box of a test has no mark in its relay's folder.
func TestWhatABoxLacksIsNamed(t *testing.T) {
	t.Parallel()
	p := newProvider(t, endpoint(t))
	box := create(t, p, draft(t))
	found, err := p.LookInto(t.Context(), box)
	if err == nil || !strings.Contains(err.Error(), "lacks: \"the folder of the relay socket") || strings.Contains(err.Error(), "system calls") {
		t.Errorf("%q, %v", found, err)
	}
}
