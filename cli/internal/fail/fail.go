// Package fail is how a command ends badly: one style of message with what to
// do next, and one table of exit codes.
//
// Invariants:
//   - Every exit code of ours is named here; other codes are those of a
//     command that ran in a box.
//   - What reaches the terminal holds no control character.
package fail

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/madarco/agentbox/cli/internal/output"
)

// Code is an exit code of agentbox.
type Code int

// The exit codes. `agentbox help exit-codes` prints them from Codes.
const (
	OK          Code = 0
	Failed      Code = 1
	Usage       Code = 2
	Unavailable Code = 3
	Relay       Code = 4
	Refused     Code = 5
	State       Code = 6
	Contradict  Code = 64 // EX_USAGE of sysexits.h
	Timeout     Code = 124
	Interrupted Code = 130
)

// Documented is a code and what it means.
type Documented struct {
	Code    Code
	Meaning string
}

// Codes documents every code, in order.
var Codes = []Documented{
	{OK, "done, or the user answered no"},
	{Failed, "it was tried and failed"},
	{Usage, "bad arguments, or a reference that names no single box"},
	{Unavailable, "what makes boxes is not ready: the engine does not answer, or the box image is missing"},
	{Relay, "the relay does not answer or could not be started"},
	{Refused, "refused so that nothing is lost or let out: unlanded commits, a project too wide, an answer that needs a person"},
	{State, "the state file is damaged or was written by a newer version; it was left as it is"},
	{Contradict, "options of git push --host-only that exclude each other, or a bad name for its branch"},
	{Timeout, "the time that was given ran out"},
	{Interrupted, "interrupted; what had been made was removed"},
}

// Error is a failure with its exit code and, where there is one, the command
// that comes next.
type Error struct {
	Err  error
	Code Code
	// Next is what the user can do, a command where possible.
	Next string
	// Rows are lines shown between the message and Next, such as the boxes
	// that a reference may have meant.
	Rows []string
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// New is an error with its code and next step.
func New(code Code, next, format string, args ...any) *Error {
	return &Error{Err: fmt.Errorf(format, args...), Code: code, Next: next}
}

// Usagef is a mistake in how the command was called.
func Usagef(next, format string, args ...any) *Error {
	return New(Usage, next, format, args...)
}

// Exit ends the command with the code of a command that ran in a box, in
// silence.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Exited is Exit for a code other than zero, else nil.
func Exited(code int) error {
	if code == 0 {
		return nil
	}
	return Exit(code)
}

// ErrInterrupted is the cause of a context that the user ended.
var ErrInterrupted = errors.New("interrupted")

// Of is what an error means to the user: itself, where a command gave it a
// code, else what the rules say about the errors that it wraps.
func Of(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		// The wrapping words belong to the message.
		return &Error{Err: err, Code: known.Code, Next: known.Next, Rows: known.Rows}
	}
	if errors.Is(err, ErrInterrupted) || errors.Is(err, context.Canceled) {
		return &Error{Err: ErrInterrupted, Code: Interrupted}
	}
	for _, r := range rules {
		if found := r(err); found != nil {
			found.Err = err
			return found
		}
	}
	return &Error{Err: err, Code: Failed}
}

// Report writes err in the one style and returns the exit code of the process.
// With asJSON it is one object on one line.
func Report(w io.Writer, err error, asJSON bool) int {
	if err == nil {
		return int(OK)
	}
	var exit Exit
	if errors.As(err, &exit) {
		return int(exit)
	}
	e := Of(err)
	if asJSON {
		writeJSON(w, e)
		return int(e.Code)
	}
	fmt.Fprintf(w, "error: %s\n", output.Printable(e.Err.Error()))
	for _, row := range e.Rows {
		fmt.Fprintf(w, "  %s\n", output.Printable(row))
	}
	if e.Next != "" {
		fmt.Fprintf(w, "next: %s\n", output.Printable(e.Next))
	}
	return int(e.Code)
}

func writeJSON(w io.Writer, e *Error) {
	var body struct {
		Error struct {
			Code    Code     `json:"code"`
			Message string   `json:"message"`
			Next    string   `json:"next,omitempty"`
			Rows    []string `json:"rows,omitempty"`
		} `json:"error"`
	}
	body.Error.Code, body.Error.Message, body.Error.Next, body.Error.Rows = e.Code, e.Err.Error(), e.Next, e.Rows
	output.One(w, output.JSON{}, false, body) //nolint:errcheck // there is no other way to tell
}
