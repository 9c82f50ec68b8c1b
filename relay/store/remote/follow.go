package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/atomicfile"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

const (
	// refresh is how often everything is looked at, changed or not: the plane
	// takes a laptop's questions for gone after a few of these.
	refresh = time.Minute
	// settle lets changes that come together go up together.
	settle = time.Second
	// batch is how many events go up at once.
	batch = 200
	// backoffFirst doubles up to backoffMost while the plane does not answer.
	backoffFirst, backoffMost = 2 * time.Second, time.Minute
)

// Local is what a Follower reads of the laptop's own store.
type Local interface {
	Boxes(ctx context.Context) ([]store.Registration, error)
	Statuses(ctx context.Context) ([]store.Status, error)
	Approvals(ctx context.Context, boxID string, states ...wire.ApprovalState) ([]store.Approval, error)
	Events(ctx context.Context, boxID string, since int64, limit int) ([]wire.Event, error)
	Watch(topic store.Topic) (changed <-chan struct{}, stop func())
}

// Follower pushes a laptop's state up to a plane.
type Follower struct {
	// Local is the laptop's store, Up the plane.
	Local Local
	Up    *Store
	// File keeps how far the events of each box went, so that a restart sends
	// none of them twice.
	File string
	// Log gets what failed.
	Log *slog.Logger

	places   map[string]place
	statuses map[string]time.Time
	boxes    map[string]core.Box
}

// place is how far a box's events went: Sent is the laptop's number of the last
// one, After the plane's.
type place struct {
	Sent  int64  `json:"sent"`
	After *int64 `json:"after,omitempty"`
}

// Run follows until ctx ends. It returns an error only when its file can't be
// read.
func (f *Follower) Run(ctx context.Context) error {
	if err := f.load(); err != nil {
		return err
	}
	wait, told := backoffFirst, false
	for ctx.Err() == nil {
		feed, endFeed := f.Local.Watch(store.FeedTopic)
		asked, endAsked := f.Local.Watch(store.PendingTopic)
		err := f.push(ctx)
		if err == nil {
			wait, told = backoffFirst, false
			select {
			case <-feed:
				pause(ctx, settle)
			case <-asked:
				pause(ctx, settle)
			case <-ctx.Done():
			case <-time.After(refresh):
			}
		} else if ctx.Err() == nil {
			if !told {
				told = true
				f.Log.Warn("the plane is behind", "err", err)
			}
			pause(ctx, wait/2+rand.N(wait/2)) //nolint:gosec // guards nothing
			wait = min(2*wait, backoffMost)
		}
		endFeed()
		endAsked()
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// push brings the plane up to date. One box that it refuses holds up no other.
func (f *Follower) push(ctx context.Context) error {
	regs, err := f.Local.Boxes(ctx)
	if err != nil {
		return err
	}
	var failed []error
	here := map[string]bool{}
	for _, reg := range regs {
		here[reg.Box.ID] = true
		failed = append(failed, f.pushBox(ctx, reg.Box))
	}
	for _, id := range slices.Collect(maps.Keys(f.places)) {
		if !here[id] {
			failed = append(failed, f.forget(ctx, id))
		}
	}
	failed = append(failed, f.pushStatuses(ctx), f.pushPending(ctx))
	return errors.Join(failed...)
}

func (f *Follower) pushBox(ctx context.Context, box core.Box) error {
	if known, ok := f.boxes[box.ID]; !ok || !reflect.DeepEqual(known, box) {
		if err := f.Up.RegisterBox(ctx, box); err != nil {
			return err
		}
		f.boxes[box.ID] = box
	}
	for {
		at := f.places[box.ID]
		events, err := f.Local.Events(ctx, box.ID, at.Sent, batch)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return f.move(box.ID, at)
		}
		last, err := f.Up.AppendEvents(ctx, box.ID, at.After, posts(events))
		if errors.Is(err, store.ErrNotFound) {
			delete(f.boxes, box.ID) // the plane has lost the box: tell it again
		}
		if err != nil {
			return err
		}
		if err := f.move(box.ID, place{events[len(events)-1].Seq, &last}); err != nil {
			return err
		}
	}
}

// posts are events as a plane takes them. A login is in no store of ours; that
// none goes up does not rest on it.
func posts(events []wire.Event) []wire.PostEvent {
	all := make([]wire.PostEvent, 0, len(events))
	for _, e := range events {
		if e.Type == "credentials-updated" {
			e.Type, e.Payload = "relay.dropped", nil
		}
		all = append(all, wire.PostEvent{Type: e.Type, TS: e.TS, Payload: e.Payload})
	}
	return all
}

func (f *Follower) pushStatuses(ctx context.Context) error {
	all, err := f.Local.Statuses(ctx)
	failed := []error{err}
	for _, s := range all {
		if f.statuses[s.BoxID].Equal(s.UpdatedAt) {
			continue
		}
		if err := f.Up.SetStatus(ctx, s.BoxID, s.Snapshot); err != nil {
			failed = append(failed, err)
			continue
		}
		f.statuses[s.BoxID] = s.UpdatedAt
	}
	return errors.Join(failed...)
}

func (f *Follower) pushPending(ctx context.Context) error {
	all, err := f.Local.Approvals(ctx, "", wire.Pending)
	if err != nil {
		return err
	}
	return f.Up.SetPending(ctx, all)
}

func (f *Follower) forget(ctx context.Context, id string) error {
	if _, err := f.Up.ForgetBox(ctx, id); err != nil {
		return err
	}
	delete(f.boxes, id)
	delete(f.statuses, id)
	delete(f.places, id)
	return f.save()
}

func (f *Follower) move(boxID string, to place) error {
	if at, known := f.places[boxID]; known && reflect.DeepEqual(at, to) {
		return nil
	}
	f.places[boxID] = to
	return f.save()
}

func (f *Follower) load() error {
	f.places, f.statuses, f.boxes = map[string]place{}, map[string]time.Time{}, map[string]core.Box{}
	raw, err := os.ReadFile(f.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &f.places)
	}
	if err != nil {
		return fmt.Errorf("read how far the plane is: %w", err)
	}
	return nil
}

func (f *Follower) save() error {
	raw, err := json.Marshal(f.places)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(f.File), 0o700)
	}
	if err == nil {
		err = atomicfile.Write(f.File, append(raw, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep how far the plane is: %w", err)
	}
	return nil
}
