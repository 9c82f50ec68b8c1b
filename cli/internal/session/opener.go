package session

import (
	"context"
	"fmt"

	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

// Opener finds boxes for sessions, and brings those back that do not run.
type Opener struct {
	Streams  *streams.Streams
	Box      func(ref string) (core.Box, error)
	Provider func(name string) (provider.Provider, error)
	// Wake brings a box that does not run back.
	Wake func(ctx context.Context, box core.Box) error
}

// NewOpener is the opener of the user's boxes.
func NewOpener(f *factory.Factory, wake func(context.Context, core.Box) error) Opener {
	return Opener{Streams: f.Streams, Box: f.Box, Provider: f.Provider, Wake: wake}
}

// Open finds the box that ref means and sees to it that it runs.
func (o Opener) Open(ctx context.Context, ref string) (core.Box, provider.Provider, error) {
	box, err := o.Box(ref)
	if err != nil {
		return core.Box{}, nil, err
	}
	p, err := o.Provider(box.Provider)
	if err != nil {
		return core.Box{}, nil, err
	}
	state, err := p.State(ctx, box)
	if err != nil {
		return core.Box{}, nil, fmt.Errorf("ask for the state of box %s: %w", box.Name, err)
	}
	if state != core.StateRunning {
		if err := o.Wake(ctx, box); err != nil {
			return core.Box{}, nil, err
		}
		o.Streams.Note("box %s did not run: started it", box.Name)
	}
	return box, p, nil
}
