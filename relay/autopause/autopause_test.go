package autopause

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// yard is a few boxes, their words and what was done to them.
type yard struct {
	mu       sync.Mutex
	boxes    []core.Box
	states   map[string]core.State
	statuses []store.Status
	asked    int
	paused   []string
	failing  bool
	events   []wire.PostEvent
}

func (y *yard) box(id string, state core.State, status string) {
	y.boxes = append(y.boxes, core.Box{ID: id, Name: core.BoxName(id), CreatedAt: time.Now().Add(time.Duration(len(y.boxes)) * time.Second)})
	if y.states == nil {
		y.states = map[string]core.State{}
	}
	y.states[id] = state
	if status != "" {
		y.statuses = append(y.statuses, store.Status{BoxID: id, Snapshot: json.RawMessage(status)})
	}
}

func (y *yard) States(context.Context, []core.Box) (map[string]core.State, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.asked++
	return y.states, nil
}

func (y *yard) Pause(_ context.Context, box core.Box) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.failing {
		return errors.New("it hangs")
	}
	y.paused = append(y.paused, box.ID)
	y.states[box.ID] = core.StatePaused
	return nil
}

func (y *yard) Boxes(context.Context) (regs []store.Registration, err error) {
	for _, b := range y.boxes {
		regs = append(regs, store.Registration{Box: b})
	}
	return regs, nil
}

func (y *yard) Statuses(context.Context) ([]store.Status, error) { return y.statuses, nil }

func (y *yard) AppendEvent(_ context.Context, _ string, e wire.PostEvent) (wire.Event, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.events = append(y.events, e)
	return wire.Event{}, nil
}

func (y *yard) seen() (paused []string, asked int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return slices.Clone(y.paused), y.asked
}

func (y *yard) config(set Settings) Config {
	return Config{Boxes: y, Records: y, Settings: func() Settings { return set }, Log: slog.New(slog.DiscardHandler)}
}

func idle(minutes int) string {
	return fmt.Sprintf(`{"claude":{"state":"idle","updatedAt":%q}}`, time.Now().Add(-time.Duration(minutes)*time.Minute).Format(time.RFC3339))
}

func working() string {
	return fmt.Sprintf(`{"claude":{"state":"working","updatedAt":%q}}`, time.Now().Add(-time.Hour).Format(time.RFC3339))
}

func TestWhoIsPaused(t *testing.T) {
	set := Settings{Enabled: true, MaxRunning: 2, Idle: 5 * time.Minute}
	for _, tc := range []struct {
		why  string
		fill func(y *yard)
		set  Settings
		want []string
	}{
		{"as many as are too many, the longest idle first", func(y *yard) {
			y.box("a", core.StateRunning, idle(10))
			y.box("b", core.StateRunning, idle(30))
			y.box("c", core.StateRunning, idle(20))
			y.box("d", core.StateRunning, working())
		}, set, []string{"b", "c"}},
		{"of two alike the older", func(y *yard) {
			y.box("a", core.StateRunning, idle(10))
			y.box("b", core.StateRunning, idle(10))
			y.box("c", core.StateRunning, working())
		}, set, []string{"a"}},
		{"none that works, waits or says nothing", func(y *yard) {
			y.box("a", core.StateRunning, working())
			y.box("b", core.StateRunning, "")
			y.box("c", core.StateRunning, `{"claude":{"state":"waiting","updatedAt":"2000-01-01T00:00:00Z"}}`)
		}, set, nil},
		{"none that settled just now", func(y *yard) {
			y.box("a", core.StateRunning, idle(4))
			y.box("b", core.StateRunning, idle(3))
			y.box("c", core.StateRunning, idle(2))
		}, set, nil},
		{"one at the very bound", func(y *yard) {
			y.box("a", core.StateRunning, idle(5))
			y.box("b", core.StateRunning, working())
			y.box("c", core.StateRunning, working())
		}, set, []string{"a"}},
		{"what does not run counts for nothing", func(y *yard) {
			y.box("a", core.StateRunning, idle(10))
			y.box("b", core.StatePaused, idle(30))
			y.box("c", core.StateStopped, idle(30))
		}, set, nil},
		{"nothing where the user wants none", func(y *yard) {
			y.box("a", core.StateRunning, idle(10))
			y.box("b", core.StateRunning, idle(10))
		}, Settings{MaxRunning: 0, Idle: time.Minute}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			var y yard
			tc.fill(&y)
			if err := look(t.Context(), y.config(tc.set)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(y.paused, tc.want) || len(y.events) != len(tc.want) {
				t.Errorf("%s: paused %v, %d events, want %v", tc.why, y.paused, len(y.events), tc.want)
			}
		})
	}
}

func TestTheLoopLooksOnceAMinuteAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var y yard
		y.box("a", core.StateRunning, idle(1))
		y.box("b", core.StateRunning, working())
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			Run(ctx, y.config(Settings{Enabled: true, MaxRunning: 1, Idle: 3 * time.Minute}))
		}()
		<-time.After(every + every/2)
		synctest.Wait()
		if paused, asked := y.seen(); len(paused) != 0 || asked != 1 {
			t.Errorf("after one look, too early: %v, asked %d times", paused, asked)
		}
		<-time.After(every)
		synctest.Wait()
		if paused, _ := y.seen(); !slices.Equal(paused, []string{"a"}) {
			t.Errorf("after two: %v", paused)
		}
		stop()
		<-done
	})
}

// TestFewBoxesAreNotAskedAbout: an engine need not be woken for nothing.
func TestFewBoxesAreNotAskedAbout(t *testing.T) {
	var y yard
	y.box("a", core.StateRunning, "")
	if err := look(t.Context(), y.config(Defaults)); err != nil || y.asked != 0 {
		t.Errorf("%v, asked %d times", err, y.asked)
	}
}

func TestAFailedPauseIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := yard{failing: true}
		y.box("a", core.StateRunning, idle(10))
		if err := look(t.Context(), y.config(Settings{Enabled: true, Idle: time.Minute})); err != nil {
			t.Fatal(err)
		}
		if len(y.events) != 1 {
			t.Fatalf("%+v", y.events)
		}
		var told event
		if err := json.Unmarshal(y.events[0].Payload, &told); err != nil || told.Action != "pause-failed" || told.RunningBefore != 1 {
			t.Errorf("%+v, %v", told, err)
		}
	})
}
