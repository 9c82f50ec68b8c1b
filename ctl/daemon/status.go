package daemon

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/madarco/agentbox/ctl/control"
	"github.com/madarco/agentbox/ctl/landing"
)

// Status is the answer to control.Status.
type Status struct {
	Version   string          `json:"version"`
	PID       int             `json:"pid"`
	StartedAt time.Time       `json:"startedAt"`
	Relay     Relay           `json:"relay"`
	Landing   []landing.State `json:"landing"`
}

// Relay tells how the box reaches the relay. Listen is empty while nothing
// listens: the box has no relay, or Problem says why.
type Relay struct {
	Listen   string `json:"listen"`
	Upstream string `json:"upstream"`
	Problem  string `json:"problem,omitempty"`
}

func (d *daemon) handle(ctx context.Context, req control.Request) (any, error) {
	switch req.Op {
	case control.Ping:
		return "pong", nil
	case control.Status:
		return d.status(), nil
	case control.Land:
		return d.land(ctx)
	}
	return nil, control.ErrUnknownOp
}

func (d *daemon) status() Status {
	s := Status{Version: d.Version, PID: os.Getpid(), StartedAt: d.begun.UTC(), Landing: []landing.State{}}
	for _, w := range d.watchers() {
		s.Landing = append(s.Landing, w.Status()...)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Relay = d.relay
	return s
}

// land hands in every repository's commits now, side by side.
func (d *daemon) land(ctx context.Context) ([]landing.State, error) {
	watchers := d.watchers()
	states, errs := make([][]landing.State, len(watchers)), make([]error, len(watchers))
	var all sync.WaitGroup
	for i, w := range watchers {
		all.Go(func() { states[i], errs[i] = w.Land(ctx) })
	}
	all.Wait()
	flat := []landing.State{}
	for _, s := range states {
		flat = append(flat, s...)
	}
	return flat, errors.Join(errs...)
}
