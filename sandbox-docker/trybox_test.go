package sandboxdocker_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/provider"
)

// TestTheTriesPassAndLeaveNothing runs beside no other test, because it looks
// at all boxes of the engine.
func TestTheTriesPassAndLeaveNothing(t *testing.T) {
	p := newProvider(t, endpoint(t))
	if _, err := p.EnsureImage(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, err := p.States(t.Context())
	if err != nil {
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
	after, err := p.States(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for id := range after {
		if _, was := before[id]; !was {
			t.Errorf("box %s is left", id)
		}
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
