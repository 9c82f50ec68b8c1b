package bridge

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/madarco/agentbox/core/wire"
)

const (
	// maxWorking is how many actions of a box are in hand at one time, those that
	// wait for a person or for their repository among them. A box that keeps its
	// own bound never has more.
	maxWorking = depth
	// maxAnswered is how many answered actions are remembered by id, maxUnposted
	// how many of them with an answer that could not be posted.
	maxAnswered, maxUnposted = 1024, depth
	// maxID bounds ids that a box makes.
	maxID = 100
)

// work is what a poller has in hand.
type work struct {
	p       *Poller
	running sync.WaitGroup

	mu       sync.Mutex
	hand     map[string]context.CancelFunc // by action id
	tails    map[string]chan struct{}      // by serial, the end of its last action
	answered []answered                    // oldest first
}

// answered is an action that was done. result is nil once the box has it.
type answered struct {
	id     string
	result *wire.Envelope
}

// accept begins an action, unless it is known: what runs goes on, what is
// answered is answered again, from memory. Beyond the bound it is left for the
// box to hand out again.
func (w *work) accept(ctx context.Context, a Action) {
	if a.ID == "" || len(a.ID) > maxID || len(a.RequestID) > maxID || a.Method == "" || len(a.Method) > maxID {
		return
	}
	serial := w.p.cfg.Host.Serial(ctx, w.p.cfg.BoxID, request(a))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hand[a.ID] != nil || len(w.hand) >= maxWorking {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	if w.hand == nil {
		w.hand, w.tails = map[string]context.CancelFunc{}, map[string]chan struct{}{}
	}
	w.hand[a.ID] = cancel
	if i := slices.IndexFunc(w.answered, func(d answered) bool { return d.id == a.ID }); i >= 0 {
		result := w.answered[i].result
		w.running.Go(func() {
			defer w.end(a.ID, "", nil)
			if result != nil {
				w.post(ctx, a.ID, *result)
			}
		})
		return
	}
	var before, done chan struct{}
	if serial != "" {
		before, done = w.tails[serial], make(chan struct{})
		w.tails[serial] = done
	}
	w.running.Go(func() {
		defer w.end(a.ID, serial, done)
		w.do(ctx, a, before)
	})
}

// end takes an action out of hand.
func (w *work) end(id, serial string, done chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hand[id]()
	delete(w.hand, id)
	if done == nil {
		return
	}
	close(done)
	if w.tails[serial] == done {
		delete(w.tails, serial)
	}
}

// do does one action when those before it on its repository are done, if
// somebody still waits for it then.
func (w *work) do(ctx context.Context, a Action, before chan struct{}) {
	if before != nil {
		select {
		case <-before:
		case <-ctx.Done():
			return
		}
	}
	if !w.stillWanted(ctx, a.ID) {
		return
	}
	result := w.p.cfg.Host.Act(ctx, w.p.cfg.BoxID, request(a))
	if ctx.Err() != nil {
		return // the caller is gone, or this poller ends; the host knows what it did
	}
	w.remember(a.ID, &result)
	w.post(ctx, a.ID, result)
}

func request(a Action) wire.Request {
	id := a.RequestID
	if id == "" {
		id = a.ID
	}
	return wire.Request{RequestID: id, Method: a.Method, Params: a.Params}
}

// stillWanted asks the box right before an action begins. A box that does not
// answer hands it out again.
func (w *work) stillWanted(ctx context.Context, id string) bool {
	var wanted Wanted
	err := w.p.ask(ctx, postTime, http.MethodPost, "/bridge/heartbeat", Beat{[]string{id}}, &wanted)
	return err == nil && slices.Contains(wanted.IDs, id)
}

// remember keeps an answer, until forgotten replaces it or it is too old.
func (w *work) remember(id string, result *wire.Envelope) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered = slices.DeleteFunc(w.answered, func(d answered) bool { return d.id == id })
	w.answered = append(w.answered, answered{id, result})
	w.answered = slices.Delete(w.answered, 0, max(0, len(w.answered)-maxAnswered))
	unposted := 0
	for i := len(w.answered) - 1; i >= 0; i-- {
		if w.answered[i].result == nil {
			continue
		}
		if unposted++; unposted > maxUnposted {
			w.answered = slices.Delete(w.answered, i, i+1) // the host's store still knows
		}
	}
}

// post brings a result to the box. 404 means that nobody waits for it.
func (w *work) post(ctx context.Context, id string, result wire.Envelope) {
	wait := backoffFirst
	for try := 1; ; try++ {
		err := w.p.ask(ctx, postTime, http.MethodPost, "/bridge/action-result", Result{ID: id, Envelope: result}, nil)
		if err == nil || errors.Is(err, errStatus(http.StatusNotFound)) {
			w.remember(id, nil)
			return
		}
		if try == resultTries || ctx.Err() != nil {
			w.p.cfg.Log.Warn("a result waits until its box asks again", "box", w.p.cfg.BoxID, "err", err)
			return
		}
		pause(ctx, wait)
		wait = min(2*wait, backoffMost)
	}
}

// cancel ends actions that nobody waits for any longer.
func (w *work) cancel(ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if end := w.hand[id]; end != nil {
			end()
		}
	}
}

// beat keeps the leases of what is in hand, and ends what the box does not want.
func (w *work) beat(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		ids := w.inHand()
		if len(ids) == 0 {
			continue
		}
		var wanted Wanted
		if w.p.ask(ctx, postTime, http.MethodPost, "/bridge/heartbeat", Beat{ids}, &wanted) != nil {
			continue
		}
		w.cancel(slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(wanted.IDs, id) }))
	}
}

func (w *work) inHand() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make([]string, 0, len(w.hand))
	for id := range w.hand {
		ids = append(ids, id)
	}
	return ids
}
