// Package sessiontest is a box with sessions, for tests: it answers as
// agentbox-ctl does, and keeps what it was asked.
package sessiontest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"

	"github.com/madarco/agentbox/cli/internal/session"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	wire "github.com/madarco/agentbox/core/session"
)

// Box is one box and its provider.
type Box struct {
	provider.Provider
	Box core.Box
	Now core.State
	// Woken counts how often the box was started.
	Woken int

	mu sync.Mutex
	// Sessions are those there are.
	Sessions []wire.Info
	// Begun are the requests that came, by verb.
	Begun map[string]wire.Request
	// Execs are the command lines that were executed, Env their environments.
	Execs []string
	Env   []string
	// Leases are those of what was shown, which Execs leaves out; Held those
	// that were held.
	Leases, Held []string
	// Refuse is the code of the next start.
	Refuse int
	// Ends: a session that is shown ends, with Code. Else the user leaves it.
	Ends bool
	Code int
}

// New is a running box without sessions.
func New() *Box {
	return &Box{
		Box: core.Box{ID: "b0000000a", Name: "shop", ProjectIndex: 1, Provider: "docker"},
		Now: core.StateRunning, Begun: map[string]wire.Request{},
	}
}

// Terminal puts a terminal under s, on which typed has been typed.
func Terminal(t *testing.T, s *streams.Streams, typed string) {
	t.Helper()
	user, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close(); user.Close() })
	if _, err := user.WriteString(typed); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, user) //nolint:errcheck // it ends with the terminal
	s.In, s.Out, s.InTTY, s.OutTTY = tty, tty, true, true
}

// Opener opens the box, whatever it is called.
func (b *Box) Opener(s *streams.Streams) session.Opener {
	return session.Opener{
		Streams:  s,
		Box:      func(string) (core.Box, error) { return b.Box, nil },
		Provider: func(string) (provider.Provider, error) { return b, nil },
		Wake: func(context.Context, core.Box) error {
			b.Woken++
			b.Now = core.StateRunning
			return nil
		},
	}
}

// State is the box's.
func (b *Box) State(context.Context, core.Box) (core.State, error) { return b.Now, nil }

// Exec answers as agentbox-ctl does; other commands copy their input, unless
// that is a terminal, and end with Code.
func (b *Box) Exec(_ context.Context, _ core.Box, req provider.ExecRequest) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := strings.Join(req.Argv, " ")
	rest, ok := strings.CutPrefix(line, "agentbox-ctl session ")
	verb, word, _ := strings.Cut(rest, " ")
	if verb == "hold" { // whenever it comes
		b.Held = append(b.Held, word)
		return 0, nil
	}
	if lease, name, ok := strings.Cut(strings.TrimPrefix(word, "--lease "), " "); ok && verb == "attach" {
		line, word = strings.TrimSuffix(line, word)+name, name
		b.Leases = append(b.Leases, lease)
	}
	b.Execs, b.Env = append(b.Execs, line), append(b.Env, req.Env...)
	at := slices.IndexFunc(b.Sessions, func(i wire.Info) bool { return string(i.Name) == word })
	switch {
	case (!ok || verb == "run") && req.TTY != nil: // a terminal has no end to copy to
		return b.Code, nil
	case !ok || verb == "run":
		_, err := io.Copy(req.Stdout, req.Stdin)
		return b.Code, err
	case verb == "start" || verb == "stage":
		return b.begin(verb, req)
	case verb == "list":
		return 0, json.NewEncoder(req.Stdout).Encode(wire.List{Sessions: b.Sessions})
	case at < 0:
		return wire.ExitNone, nil
	case verb == "kill":
		b.Sessions = slices.Delete(b.Sessions, at, at+1)
	case b.Ends:
		b.Sessions = slices.Delete(b.Sessions, at, at+1)
		return b.Code, nil
	}
	return 0, nil
}

func (b *Box) begin(verb string, req provider.ExecRequest) (int, error) {
	r, err := wire.ReadRequest(req.Stdin)
	if err != nil {
		return 0, err
	}
	if b.Refuse != 0 {
		fmt.Fprint(req.Stderr, "\x1b[2Jthe box's own words")
		return b.Refuse, nil
	}
	if slices.ContainsFunc(b.Sessions, func(i wire.Info) bool { return i.Name == r.Name }) {
		return wire.ExitExists, nil
	}
	b.Begun[verb] = r
	if verb == "start" {
		b.Sessions = append(b.Sessions, wire.Info{Name: r.Name, Created: int64(1000 + len(b.Sessions))})
	}
	return 0, nil
}
