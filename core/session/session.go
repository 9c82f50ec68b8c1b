// Package session is what host and box tell each other about the terminal
// sessions in a box: a request to start one, and the list of those there are.
//
// Invariants:
//   - A name is a validated type on both sides: it becomes a tmux target and a
//     file's name in the box.
//   - A request carries secrets in Env. It travels on a standard input and is
//     kept in no argv, no container and no record.
//   - What a box answers is capped and decoded strictly, and it chooses words
//     for people alone.
package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
)

// Bounds of both directions, in bytes and in sessions.
const (
	// MaxRequest bounds a request: a prompt fits, a file does not.
	MaxRequest = 1 << 20
	// MaxList bounds the list as text.
	MaxList  = 256 << 10
	maxInfos = 256
)

// Exit codes of `agentbox-ctl session` that the host has words for.
const (
	// ExitExists: a session of that name runs.
	ExitExists = 17
	// ExitNone: there is no such session.
	ExitNone = 18
	// ExitNoTmux: the box has no tmux.
	ExitNoTmux = 19
	// ExitNoProgram: the box lacks the program to run, as a shell says it.
	ExitNoProgram = 127
)

// Name is a session's name: lower-case letters, digits and inner dashes, 1 to
// 40 bytes. tmux gives "." and ":" in a target a meaning.
type Name string

// MaxName is the length of the longest name, in bytes.
const MaxName = 40

// ParseName validates s. The error wraps core.ErrInvalid.
func ParseName(s string) (Name, error) {
	if s == "" || len(s) > MaxName || s[0] == '-' || s[len(s)-1] == '-' || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return "", fmt.Errorf("session name %s: %w: use 1 to %d lower-case letters, digits and dashes, without a dash at either end", core.Untrusted(s).Quote(), core.ErrInvalid, MaxName)
	}
	return Name(s), nil
}

// UnmarshalJSON refuses a name that ParseName refuses.
func (n *Name) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	name, err := ParseName(s)
	*n = name
	return err
}

// Request is one session to start, one JSON object on the standard input of
// `agentbox-ctl session start` or `stage`.
type Request struct {
	Name Name `json:"name"`
	// Agent is the agent that runs in it, so that its first-run questions are
	// answered beforehand; empty for another command.
	Agent string `json:"agent,omitempty"`
	// Argv is run as it is.
	Argv []string `json:"argv"`
	// Env is set on top of the box's environment, "NAME=value".
	Env []string `json:"env,omitempty"`
	// Dir is the folder that it runs in.
	Dir core.BoxPath `json:"dir"`
	// Hold keeps the screen of a command that ended badly until it was read.
	Hold bool `json:"hold,omitempty"`
}

// Check tells what is wrong with a request. The error wraps core.ErrInvalid.
func (r Request) Check() error {
	wrong := func(what string) error { return fmt.Errorf("session request: %w: %s", core.ErrInvalid, what) }
	if _, err := ParseName(string(r.Name)); err != nil {
		return err
	}
	if _, err := core.ParseBoxPath(string(r.Dir)); err != nil {
		return err
	}
	if len(r.Argv) == 0 || r.Argv[0] == "" {
		return wrong("it names no program")
	}
	for _, word := range r.Argv {
		if strings.Contains(word, "\x00") {
			return wrong("a word holds a NUL")
		}
	}
	for _, entry := range r.Env {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" || strings.Contains(entry, "\x00") {
			return wrong("an entry of the environment is not NAME=value")
		}
	}
	return nil
}

// ErrTooLong: a request or a list exceeds its bound.
var ErrTooLong = errors.New("too long")

// Encode is the request's text.
func (r Request) Encode() ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the session request: %w", err)
	}
	if len(data) > MaxRequest {
		return nil, fmt.Errorf("session request of %d bytes: %w: the most is %d", len(data), ErrTooLong, MaxRequest)
	}
	return data, nil
}

// ReadRequest reads and checks one request, up to the end of r.
func ReadRequest(r io.Reader) (Request, error) {
	var q Request
	data, err := io.ReadAll(io.LimitReader(r, MaxRequest+1))
	switch {
	case err != nil:
		return q, fmt.Errorf("read the session request: %w", err)
	case len(data) > MaxRequest:
		return q, fmt.Errorf("session request: %w", ErrTooLong)
	}
	if err := wire.Decode(data, &q); err != nil {
		return q, fmt.Errorf("read the session request: %w", err)
	}
	return q, q.Check()
}

// Info is one session of a box, as the box tells it.
type Info struct {
	Name Name `json:"name"`
	// Created is in seconds since 1970, as tmux counts.
	Created int64 `json:"created"`
	// Attached counts the terminals that show it.
	Attached int `json:"attached"`
	// Exit is the code of a command that has ended badly and whose screen is kept.
	Exit *int `json:"exit,omitempty"`
}

// CreatedAt is when the session began.
func (i Info) CreatedAt() time.Time { return time.Unix(i.Created, 0) }

// List is what `agentbox-ctl session list --json` prints.
type List struct {
	Sessions []Info `json:"sessions"`
}

// ReadList decodes what a box printed. More sessions than a person makes, or
// one whose name is none, make the whole list void.
func ReadList(data []byte) ([]Info, error) {
	var l List
	if len(data) > MaxList {
		return nil, fmt.Errorf("the box's list of sessions: %w", ErrTooLong)
	}
	if err := wire.Decode(data, &l); err != nil {
		return nil, fmt.Errorf("the box's list of sessions: %w", err)
	}
	if len(l.Sessions) > maxInfos {
		return nil, fmt.Errorf("the box's list of sessions: %w: more than %d", ErrTooLong, maxInfos)
	}
	for _, i := range l.Sessions {
		if i.Name == "" || i.Created < 0 || i.Created > 1<<40 || i.Attached < 0 {
			return nil, fmt.Errorf("the box's list of sessions: %w", core.ErrInvalid)
		}
	}
	return l.Sessions, nil
}

// Line makes a command of the user's one argv: one word is a line for the
// box's login shell, several are a program and its arguments, as they are.
func Line(command []string) []string {
	if len(command) == 1 {
		return []string{"/bin/bash", "-lc", command[0]}
	}
	return command
}

// NameFor derives a name from a program: its base name with what is not
// allowed left out, "run" where nothing remains.
func NameFor(program string) Name {
	base := strings.ToLower(path.Base(program))
	kept := strings.Map(func(r rune) rune {
		if r < 0x80 && strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-", r) {
			return r
		}
		return -1
	}, base)
	kept = strings.Trim(kept[:min(MaxName, len(kept))], "-")
	if name, err := ParseName(kept); err == nil {
		return name
	}
	return "run"
}
