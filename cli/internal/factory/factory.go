// Package factory hands commands what they need, made on first use, so that a
// command pays for nothing that it does not touch.
package factory

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/madarco/agentbox/cli/internal/config"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/sandbox-core/state"
)

// Factory is what the commands share. Its functions are safe to call more than
// once and cheap after the first call.
type Factory struct {
	Streams *streams.Streams
	Version string
	Now     func() time.Time
	// Getwd is the folder that the user stands in.
	Getwd func() (string, error)
	Home  func() (core.Home, error)
	// Provider is the provider of this name.
	Provider func(name string) (provider.Provider, error)
	// Relay is the client of a relay that answers; it is started if need be.
	Relay func(ctx context.Context) (Relay, error)
	// RunningRelay is the same, and starts none: nobody may answer.
	RunningRelay func() (Relay, error)
	// Tail is what stood behind "--" on the command line; HasTail tells that
	// "--" was there.
	Tail    []string
	HasTail bool
}

// Relay is what commands ask of the relay; *client.Client is one.
type Relay interface {
	Register(ctx context.Context, r wire.RegisterBox) error
	Forget(ctx context.Context, boxID string) error
	// Sanction tells which branch the user has put a box on.
	Sanction(ctx context.Context, s wire.SanctionBranch) error
	// Approvals lists what waits, of one box or of all where boxID is empty.
	Approvals(ctx context.Context, boxID string) ([]wire.Approval, error)
	// Answer answers one, and tells what came of it where the relay carries it
	// out itself; errors wrap client.ErrNotFound and client.ErrConflict.
	Answer(ctx context.Context, a wire.Answer) (wire.Answered, error)
	// Push pushes what a box has landed, for the user.
	Push(ctx context.Context, p wire.HostPush) (wire.Envelope, error)
	// Land takes in a stream of package handin; with ask, for AskLanding alone.
	Land(ctx context.Context, boxID string, ask bool, stream io.Reader) ([]wire.LandingResult, error)
	// AskLanding opens the question about a landing that the user wants.
	AskLanding(ctx context.Context, a wire.AskLanding) (wire.AskedLanding, error)
	// Landings lists what was handed in and has not landed, of all boxes if boxID
	// is empty.
	Landings(ctx context.Context, boxID string) ([]wire.WaitingLanding, error)
	// Events lists events after since; Follow calls each for every event after since, until the context ends.
	Events(ctx context.Context, boxID, since string) (wire.EventList, error)
	Follow(ctx context.Context, boxID, since string, each func(wire.Event) error) error
}

// Store is the state file of the user's home.
func (f *Factory) Store() (*state.Store, error) {
	home, err := f.Home()
	if err != nil {
		return nil, err
	}
	return state.Open(home), nil
}

// Config is the user's configuration; what it warns about is said once.
func (f *Factory) Config() (config.Config, error) {
	home, err := f.Home()
	if err != nil {
		return config.Config{}, err
	}
	c, err := config.Load(home)
	for _, w := range c.Warnings {
		f.Streams.Warn("%s", w)
	}
	return c, err
}

// Project is the root of the project that the user stands in, or of dir where
// that is not empty.
func (f *Factory) Project(dir string) (string, error) {
	if dir == "" {
		wd, err := f.Getwd()
		if err != nil {
			return "", fmt.Errorf("find the current folder: %w", err)
		}
		dir = wd
	}
	root, err := state.ProjectRoot(dir)
	if err != nil {
		return "", &fail.Error{Err: err, Code: fail.Usage}
	}
	return root, nil
}

// Box is the box that ref means, in the project that the user stands in.
func (f *Factory) Box(ref string) (core.Box, error) {
	boxes, root, err := f.Boxes()
	if err != nil {
		return core.Box{}, err
	}
	return state.Resolve(boxes, ref, root)
}

// Selection says which boxes a command is for: those of Refs, or all of the
// project, or all of the home; without any, the project's only box.
type Selection struct {
	Refs         []string
	Project, All bool
}

// Select are the boxes of a selection, each once. All are found before any is
// touched, so that a slip in the last reference changes nothing.
func (f *Factory) Select(s Selection) ([]core.Box, error) {
	all, root, err := f.Boxes()
	if err != nil {
		return nil, err
	}
	switch {
	case s.All:
		return all, nil
	case s.Project:
		return (&state.State{Boxes: all}).Project(root), nil
	case len(s.Refs) == 0:
		s.Refs = []string{""}
	}
	var chosen []core.Box
	for _, ref := range s.Refs {
		box, err := state.Resolve(all, ref, root)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(chosen, func(b core.Box) bool { return b.ID == box.ID }) {
			chosen = append(chosen, box)
		}
	}
	return chosen, nil
}

// Boxes are all records, and the root of the project that the user stands in.
func (f *Factory) Boxes() (boxes []core.Box, root string, err error) {
	store, err := f.Store()
	if err != nil {
		return nil, "", err
	}
	root, err = f.Project("")
	if err != nil {
		return nil, "", err
	}
	st, err := store.Read()
	if err != nil {
		return nil, "", err
	}
	return st.Boxes, root, nil
}

// Providers are the names that --provider takes.
var Providers = []string{"docker"}

// CheckProvider refuses a name that is no provider's.
func CheckProvider(name string) error {
	if !slices.Contains(Providers, name) {
		return fail.Usagef("providers: "+strings.Join(Providers, ", "), "no provider %s", core.Untrusted(name).Quote())
	}
	return nil
}
