package budget

import (
	"context"
	"sync"
	"time"
)

// Pace spreads the landings of each box over time.
type Pace struct {
	limits Limits
	mu     sync.Mutex
	due    map[string]time.Time // when the box's next turn would be, were there no burst
}

// NewPace paces by PerSecond and Burst.
func NewPace(limits Limits) *Pace { return &Pace{limits: limits, due: map[string]time.Time{}} }

// Wait returns when it is the box's turn; the context's error if that ends first.
func (p *Pace) Wait(ctx context.Context, boxID string) error {
	wait := time.Until(p.turn(boxID, time.Now()))
	if wait <= 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// turn books a turn and tells when it is.
func (p *Pace) turn(boxID string, now time.Time) time.Time {
	step := time.Second / time.Duration(p.limits.PerSecond)
	slack := step * time.Duration(p.limits.Burst-1)
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.due[boxID]
	if at.Before(now) {
		at = now
	}
	p.due[boxID] = at.Add(step)
	for id, due := range p.due { // forget whoever has been quiet
		if len(p.due) > maxPaced && due.Before(now) {
			delete(p.due, id)
		}
	}
	return at.Add(-slack)
}

// maxPaced is how many boxes are remembered before the quiet ones are forgotten.
const maxPaced = 1000
