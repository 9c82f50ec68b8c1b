package streams

import (
	"errors"
	"testing"
	"time"
)

func clock(step time.Duration) func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time {
		now = now.Add(step)
		return now
	}
}

func TestStepsArePlainLinesWithoutATerminal(t *testing.T) {
	s, _, out, errOut := Test()
	p := NewSteps(s, clock(120*time.Millisecond))
	seed, box := p.Step("seed"), p.Step("box")
	box(errors.New("no"))
	seed(nil)
	seed(errors.New("a second end counts nothing"))
	if got, want := errOut.String(), "✗ box 0.12s\n✓ seed 0.36s\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if out.Len() != 0 {
		t.Errorf("words among the data: %q", out)
	}
}

func TestStepsOnATerminalNameWhatRuns(t *testing.T) {
	s, _, _, errOut := Test()
	s.ErrTTY, s.Color = true, true
	p := NewSteps(s, clock(time.Second))
	p.Step("seed")(nil)
	want := "\r\x1b[K\x1b[2m· seed\x1b[0m" + "\r\x1b[K\x1b[32m✓\x1b[0m seed \x1b[2m1.00s\x1b[0m\n"
	if got := errOut.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAQuietCommandShowsNoSteps(t *testing.T) {
	s, _, _, errOut := Test()
	s.Quiet = true
	NewSteps(s, time.Now).Step("seed")(nil)
	s.Note("a note")
	s.Warn("careful")
	if got := errOut.String(); got != "warning: careful\n" {
		t.Errorf("got %q", got)
	}
}

func TestALineOfAStepStandsAboveWhatRuns(t *testing.T) {
	s, _, _, errOut := Test()
	s.ErrTTY = true
	p := NewSteps(s, time.Now)
	p.Step("image")
	errOut.Reset()
	p.Line("pulling\x1b[2J")
	if got, want := errOut.String(), "\r\x1b[K  \"pulling\\u001b[2J\"\n· image"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
