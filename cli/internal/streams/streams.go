// Package streams is a command's way to the terminal: its three streams, what
// is known about them, and the steps of long work.
//
// Invariants:
//   - Data goes to Out, words to ErrOut.
//   - What is written depends on the facts in Streams alone, so a test with
//     buffers sees what a user sees.
package streams

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Streams are the streams of one command.
type Streams struct {
	In          io.Reader
	Out, ErrOut io.Writer

	// InTTY, OutTTY and ErrTTY tell which of them are terminals.
	InTTY, OutTTY, ErrTTY bool
	// Color allows escape sequences of ours on terminals.
	Color bool
	// Quiet leaves out steps and notes; errors and data remain.
	Quiet bool
}

// System are the streams of this process. NO_COLOR and TERM=dumb are honoured.
func System() *Streams {
	return &Streams{
		In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr,
		InTTY:  term.IsTerminal(int(os.Stdin.Fd())),
		OutTTY: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTTY: term.IsTerminal(int(os.Stderr.Fd())),
		Color:  os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
}

// Test are streams over buffers, none of them a terminal.
func Test() (s *Streams, in, out, errOut *bytes.Buffer) {
	in, out, errOut = &bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{}
	return &Streams{In: in, Out: out, ErrOut: errOut}, in, out, errOut
}

// CanAsk tells whether a person can be asked a question.
func (s *Streams) CanAsk() bool { return s.InTTY && s.ErrTTY }

// Note writes one line for the person, unless the command is quiet.
func (s *Streams) Note(format string, args ...any) {
	if !s.Quiet {
		fmt.Fprintf(s.ErrOut, format+"\n", args...)
	}
}

// Warn writes one line that also a quiet command shows.
func (s *Streams) Warn(format string, args ...any) {
	fmt.Fprintf(s.ErrOut, "warning: "+format+"\n", args...)
}

// Paint is a colour of the basic palette (ECMA-48 SGR).
type Paint string

// The paints in use, each with one meaning.
const (
	Good Paint = "32"
	Bad  Paint = "31"
	Weak Paint = "2"
)

// Painted colours text that goes to ErrOut, where that is a terminal.
func (s *Streams) Painted(p Paint, text string) string {
	if !s.Color || !s.ErrTTY {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}
