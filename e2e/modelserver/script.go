package modelserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

// Script is what the model does, whichever agent asks: the steps of one
// conversation in order. Several turns are one script in which each turn but
// the last ends with Finish.
type Script []Step

// Step is one thing that the model does; exactly one of its actions is set.
type Step struct {
	// Say is text that comes before what the next step does.
	Say string `json:"say,omitempty"`
	// Run is a command for the agent's shell.
	Run string `json:"run,omitempty"`
	// Timeout is in seconds how long Run may take, 0 for the agent's default.
	// Agents cap it by their own configuration.
	Timeout int `json:"timeout,omitempty"`
	// Read is the path of a file. Agents refuse to edit a file that the
	// conversation has neither read nor written.
	Read string `json:"read,omitempty"`
	// Write makes or replaces a file.
	Write *Write `json:"write,omitempty"`
	// Edit replaces lines of a file.
	Edit *Edit `json:"edit,omitempty"`
	// Finish is the text that ends a turn; the next step answers the next prompt.
	Finish string `json:"finish,omitempty"`
}

// Write says what a file is to hold. Paths are relative to the agent's folder.
type Write struct {
	Path    string `json:"path"`
	Content string `json:"content"` // empty or complete lines
}

// Edit replaces Old, which occurs once in the file, by New. Both are complete
// lines without the last line's end, because some agents edit by line.
type Edit struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// ended is what the model answers to a prompt after the last step.
const ended = "The script has no further step."

// ParseScript reads a script from JSON, an array of steps, and checks it.
func ParseScript(r io.Reader) (Script, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxBody))
	if err != nil {
		return nil, fmt.Errorf("read the script: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var s Script
	if err := decoder.Decode(&s); err != nil {
		return nil, fmt.Errorf("read the script as a JSON array of steps: %w", err)
	}
	if decoder.More() {
		return nil, errors.New("read the script: text follows the array of steps")
	}
	return s, s.Check()
}

// Check tells whether every agent can be made to take every step.
func (s Script) Check() error {
	for i, step := range s {
		if err := step.check(); err != nil {
			return fmt.Errorf("step %d of the script: %w", i, err)
		}
	}
	return nil
}

func (s Step) check() error {
	actions := 0
	for _, set := range []bool{s.Say != "", s.Run != "", s.Read != "", s.Write != nil, s.Edit != nil, s.Finish != ""} {
		if set {
			actions++
		}
	}
	switch {
	case actions != 1:
		return fmt.Errorf("has %d actions; give it one of say, run, read, write, edit, finish", actions)
	case s.Timeout < 0 || s.Timeout != 0 && s.Run == "":
		return errors.New("has a timeout that is negative or without run")
	case s.Read != "":
		return checkPath(s.Read)
	case s.Write != nil:
		if c := s.Write.Content; c != "" && !strings.HasSuffix(c, "\n") {
			return fmt.Errorf("write %s: the content does not end in a line end", s.Write.Path)
		}
		return checkPath(s.Write.Path)
	case s.Edit != nil:
		return s.Edit.check()
	}
	return nil
}

func (e Edit) check() error {
	for _, text := range []string{e.Old, e.New} {
		if text == "" || strings.HasSuffix(text, "\n") {
			return fmt.Errorf("edit %s: old and new must be lines without the last line end", e.Path)
		}
	}
	if e.Old == e.New {
		return fmt.Errorf("edit %s: old and new are the same", e.Path)
	}
	return checkPath(e.Path)
}

func checkPath(p string) error {
	if p == "" || path.IsAbs(p) || path.Clean(p) != p || strings.HasPrefix(p, "../") || strings.ContainsAny(p, "\r\n") {
		return fmt.Errorf("path %q is not a clean path below the agent's folder", p)
	}
	return nil
}

func (s Step) usesTool() bool { return s.Say == "" && s.Finish == "" }

// limit is Timeout as a duration.
func (s Step) limit() time.Duration { return time.Duration(s.Timeout) * time.Second }

// after is the position behind the next Finish at or after position.
func (s Script) after(position int) int {
	for i := position; i < len(s); i++ {
		if s[i].Finish != "" {
			return i + 1
		}
	}
	return len(s)
}
