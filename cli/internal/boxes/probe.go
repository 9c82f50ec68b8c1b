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

// lister is a provider that knows the states of all its boxes in one question.
type lister interface {
	States(ctx context.Context) (map[string]core.State, error)
}

// States asks the providers for the state of every box, all at once. What a
// provider does not say in time, or at all, is unknown.
func States(ctx context.Context, providerOf func(string) (provider.Provider, error), all []core.Box) []core.State {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	states := make([]core.State, len(all))
	var wg sync.WaitGroup
	for name, at := range byProvider(all, states) {
		p, err := providerOf(name)
		if err != nil {
			continue
		}
		if l, ok := p.(lister); ok && len(at) > 1 {
			wg.Go(func() { listed(ctx, l, all, at, states) })
			continue
		}
		for _, i := range at {
			wg.Go(func() {
				if s, err := p.State(ctx, all[i]); err == nil {
					states[i] = s
				}
			})
		}
	}
	wg.Wait()
	return states
}

// byProvider groups the boxes that have to be asked for, as places in all, and
// sets what is known without asking.
func byProvider(all []core.Box, states []core.State) map[string][]int {
	at := map[string][]int{}
	for i, box := range all {
		if box.Creating {
			states[i] = core.StateCreating
			continue
		}
		states[i] = core.StateUnknown
		at[box.Provider] = append(at[box.Provider], i)
	}
	return at
}

func listed(ctx context.Context, l lister, all []core.Box, at []int, states []core.State) {
	known, err := l.States(ctx)
	if err != nil {
		return
	}
	for _, i := range at {
		s, ok := known[all[i].ID]
		if !ok {
			s = core.StateMissing
		}
		states[i] = s
	}
}
