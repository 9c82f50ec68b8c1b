package output

import (
	"bytes"
	"io"
)

// maxHeld bounds, in bytes, a line that is still being written.
const maxHeld = 64 << 10

// Lines passes what a program in a box prints on to w, line by line, each
// through Line. A line that never ends is passed on in pieces.
type Lines struct {
	w    io.Writer
	held []byte
}

// NewLines writes to w; call Close at the end.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Write takes more of what the program prints.
func (l *Lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		if room := maxHeld - len(l.held); len(line) >= room {
			line, rest, ended = p[:room], p[room:], true
		}
		l.held, p = append(l.held, line...), rest
		if !ended {
			return n, nil
		}
		if err := l.flush(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// Close passes on a last line that did not end.
func (l *Lines) Close() error {
	if len(l.held) == 0 {
		return nil
	}
	return l.flush()
}

func (l *Lines) flush() error {
	_, err := io.WriteString(l.w, Line(string(l.held))+"\n")
	l.held = l.held[:0]
	return err
}
