// Package boxes does what several commands do to boxes: ask for their state,
// make, start, stop and destroy them.
//
// Invariants:
//   - A create that fails or is interrupted removes all that it made.
//   - A token lives in memory and in the setup stream; on the host only the
//     relay keeps it, hashed.
//   - Stop and destroy first give a box the chance to hand in its commits.
package boxes

import (
	"context"
	"sync"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

// probeTimeout bounds how long a provider is asked for states.
const probeTimeout = 4 * time.Second

// States asks the providers for the state of every box, all at once. What a
// provider does not say in time, or at all, is unknown.
func States(ctx context.Context, providerOf func(string) (provider.Provider, error), all []core.Box) []core.State {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	states := make([]core.State, len(all))
	var wg sync.WaitGroup
	for i, box := range all {
		wg.Go(func() { states[i] = stateOf(ctx, providerOf, box) })
	}
	wg.Wait()
	return states
}

func stateOf(ctx context.Context, providerOf func(string) (provider.Provider, error), box core.Box) core.State {
	if box.Creating {
		return core.StateCreating
	}
	p, err := providerOf(box.Provider)
	if err != nil {
		return core.StateUnknown
	}
	s, err := p.State(ctx, box)
	if err != nil {
		return core.StateUnknown
	}
	return s
}
