// Package autopause freezes boxes whose agents have nothing to do while more
// boxes run than the user wants.
//
// Invariants:
//   - A box is paused only when every agent in it is idle, for as long as the
//     user said since the last one settled. One that works, waits for a person or
//     says nothing is never paused, and still counts as running.
//   - One look is over before the next begins.
package autopause

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/activity"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// Settings are the user's.
type Settings struct {
	Enabled bool
	// MaxRunning is how many boxes may run at a time.
	MaxRunning int
	// Idle is how long a box must have been idle.
	Idle time.Duration
}

// Defaults are the settings of a user who set none.
var Defaults = Settings{Enabled: true, MaxRunning: 5, Idle: 5 * time.Minute}

// Boxes see and pause boxes, whatever makes them.
type Boxes interface {
	States(ctx context.Context, boxes []core.Box) (map[string]core.State, error)
	Pause(ctx context.Context, box core.Box) error
}

// Records are what the relay knows of its boxes.
type Records interface {
	Boxes(ctx context.Context) ([]store.Registration, error)
	Statuses(ctx context.Context) ([]store.Status, error)
	AppendEvent(ctx context.Context, boxID string, e wire.PostEvent) (wire.Event, error)
}

// Config says what a loop works with.
type Config struct {
	Boxes   Boxes
	Records Records
	// Settings are read anew for each look.
	Settings func() Settings
	Log      *slog.Logger
}

const (
	// every is the time between two looks, lookTime bounds one, pauseTime the
	// pausing of one box: it hands its commits in first.
	every     = time.Minute
	lookTime  = 15 * time.Second
	pauseTime = time.Minute
)

// Run looks until ctx ends.
func Run(ctx context.Context, c Config) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := look(ctx, c); err != nil && ctx.Err() == nil {
			c.Log.Warn("look for idle boxes", "err", err)
		}
	}
}

func look(ctx context.Context, c Config) error {
	set := c.Settings()
	if !set.Enabled {
		return nil
	}
	regs, err := c.Records.Boxes(ctx)
	if err != nil || len(regs) <= set.MaxRunning { // no box need be asked then
		return err
	}
	boxes := make([]core.Box, 0, len(regs))
	for _, r := range regs {
		boxes = append(boxes, r.Box)
	}
	looking, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	states, err := c.Boxes.States(looking, boxes)
	if err != nil {
		return err
	}
	statuses, err := c.Records.Statuses(ctx)
	if err != nil {
		return err
	}
	running, chosen := choose(boxes, states, statuses, set, time.Now())
	for _, p := range chosen {
		c.pause(ctx, p, running, set)
	}
	return nil
}

// pick is a box to pause.
type pick struct {
	box  core.Box
	idle time.Duration
}

// choose finds, of the boxes that run, as many as are too many: the longest idle
// first, then the oldest.
func choose(boxes []core.Box, states map[string]core.State, statuses []store.Status, set Settings, now time.Time) (running int, chosen []pick) {
	snapshot := map[string]json.RawMessage{}
	for _, s := range statuses {
		snapshot[s.BoxID] = s.Snapshot
	}
	for _, b := range boxes {
		if states[b.ID] != core.StateRunning {
			continue
		}
		running++
		since, ok := activity.IdleSince(activity.Agents(snapshot[b.ID]))
		if idle := now.Sub(since); ok && idle >= set.Idle {
			chosen = append(chosen, pick{box: b, idle: idle})
		}
	}
	slices.SortFunc(chosen, func(a, b pick) int {
		return cmp.Or(cmp.Compare(b.idle, a.idle), a.box.CreatedAt.Compare(b.box.CreatedAt), cmp.Compare(a.box.ID, b.box.ID))
	})
	return running, chosen[:min(len(chosen), max(0, running-set.MaxRunning))]
}

// event is what the user finds about it among the box's events.
type event struct {
	ContainerName string `json:"containerName,omitempty"`
	Action        string `json:"action"`
	IdleMS        int64  `json:"idleMs"`
	RunningBefore int    `json:"runningBefore"`
	Max           int    `json:"max"`
	Error         string `json:"error,omitempty"`
}

func (c Config) pause(ctx context.Context, p pick, running int, set Settings) {
	e := event{Action: "paused", IdleMS: p.idle.Milliseconds(), RunningBefore: running, Max: set.MaxRunning}
	if p.box.Docker != nil {
		e.ContainerName = p.box.Docker.Container
	}
	pausing, cancel := context.WithTimeout(ctx, pauseTime)
	defer cancel()
	if err := c.Boxes.Pause(pausing, p.box); err != nil {
		e.Action, e.Error = "pause-failed", "look into the relay's log"
		c.Log.Warn("pause an idle box", "box", p.box.Name, "err", err)
	}
	payload, err := json.Marshal(e)
	if err == nil {
		_, err = c.Records.AppendEvent(ctx, p.box.ID, wire.PostEvent{Type: wire.RelayEventPrefix + "autopause", Payload: payload})
	}
	if err != nil {
		c.Log.Warn("tell of a paused box", "box", p.box.Name, "err", err)
	}
}
