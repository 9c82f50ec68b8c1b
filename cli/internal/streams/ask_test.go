package streams

import (
	"context"
	"errors"
	"io"
	"testing"
)

func TestAskReadsOneLineAndNoByteMore(t *testing.T) {
	s, in, _, errOut := Test()
	in.WriteString(" yes \r\nrest")
	if got, err := s.Ask(t.Context(), "Go? "); got != "yes" || err != nil || errOut.String() != "Go? " || in.String() != "rest" {
		t.Errorf("got %q, %v, asked %q, left %q", got, err, errOut, in)
	}
	if got, err := s.Ask(t.Context(), ""); got != "rest" || err != nil {
		t.Errorf("at the end of input: %q, %v", got, err)
	}
}

func TestAnInterruptEndsAQuestion(t *testing.T) {
	s, _, _, _ := Test()
	silent, end := io.Pipe()
	defer end.Close()
	s.In = silent
	sorry := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(sorry)
	if _, err := s.Ask(ctx, "Go? "); !errors.Is(err, sorry) {
		t.Errorf("Ask = %v", err)
	}
}
