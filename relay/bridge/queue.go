package bridge

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

const (
	// depth is how many requests are parked at one time.
	depth = 64
	// lease is how long an action that was handed out is the host's, unless the
	// host says that it still is.
	lease = 30 * time.Second
	// life is how long a request waits for a host that gives no sign.
	life = 15 * time.Minute
	// offerLife is life for an action that nobody waits for.
	offerLife = 90 * time.Second
	// redeliverFor is how long after the host's last sign an action that it has
	// had is handed out again. It is less than store.ResultTTL, so that a host
	// that has done it still knows.
	redeliverFor = store.ResultTTL - time.Minute

	// keptResults and keptBytes bound the results that answer retries.
	keptResults = depth
	keptBytes   = 4 << 20
	// handedBytes bounds the params in one answer to a poll.
	handedBytes = 4 << 20
)

// errConflict: the request id was used for another request.
var errConflict = errors.New("the request id belongs to another request")

// signal wakes all who wait for any change.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that the next fire closes.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// queue holds the requests that wait for the host.
type queue struct {
	changed *signal

	mu        sync.Mutex
	live      []*entry // oldest first
	kept      []*entry // settled, oldest first
	cancelled []string // handed out, then given up, and not told yet
}

// entry is one request. Its fields belong to the queue's lock, but for done and
// what is fixed when it is made.
type entry struct {
	action  Action
	done    chan struct{} // closed when result is set
	result  wire.Envelope
	keep    time.Time // until when the result answers retries
	waiters int
	life    time.Duration
	expiry  *time.Timer

	handed    bool
	leased    time.Time // when it may be handed out next
	redeliver time.Time // until when it may be handed out again
}

// do parks a request until the host has answered it, and returns the answer. A
// request of the same id joins the one that is parked, or has its answer. When
// the last caller leaves, the request is withdrawn. Errors: errConflict, the
// context's.
func (q *queue) do(ctx context.Context, boxID string, req wire.Request) (wire.Envelope, error) {
	e, err := q.enter(boxID, req, life, 1)
	if err != nil {
		return wire.Envelope{}, err
	}
	if e == nil {
		return wire.Envelope{ExitCode: ExitFull, Stderr: fmt.Sprintf("%d requests of the box wait for the host already; try again later\n", depth)}, nil
	}
	select {
	case <-e.done:
		return e.result, nil
	case <-ctx.Done():
		q.leave(e)
		return wire.Envelope{}, ctx.Err()
	}
}

// offer parks a request that nobody waits for, unless the queue is full.
func (q *queue) offer(boxID string, req wire.Request) error {
	_, err := q.enter(boxID, req, offerLife, 0)
	return err
}

// enter finds or adds the entry of a request; nil when the queue is full.
func (q *queue) enter(boxID string, req wire.Request, life time.Duration, waiters int) (*entry, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forget()
	if req.RequestID != "" {
		for _, e := range slices.Concat(q.live, q.kept) {
			if e.action.RequestID != req.RequestID {
				continue
			}
			if e.action.Method != req.Method || !bytes.Equal(e.action.Params, req.Params) {
				return nil, errConflict
			}
			e.waiters += waiters
			return e, nil
		}
	}
	if len(q.live) >= depth {
		return nil, nil //nolint:nilnil // full is an answer, not an error
	}
	id := newID()
	e := &entry{
		action: Action{ID: id, BoxID: boxID, RequestID: req.RequestID, Method: req.Method, Params: req.Params, CreatedAt: time.Now().UTC()},
		done:   make(chan struct{}), life: life, waiters: waiters,
	}
	if req.RequestID == "" {
		e.action.RequestID = id
	}
	e.expiry = time.AfterFunc(life, func() { q.expire(e) })
	q.live = append(q.live, e)
	q.changed.fire()
	return e, nil
}

// newID is a random UUID (RFC 9562, version 4).
func newID() string {
	var raw [16]byte
	rand.Read(raw[:]) //nolint:errcheck // crypto/rand.Read never fails
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}

// leave is a caller's end. Without callers the request is withdrawn.
func (q *queue) leave(e *entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.waiters--; e.waiters > 0 || !q.drop(e) {
		return
	}
	if e.handed {
		q.cancelled = append(q.cancelled, e.action.ID)
		q.cancelled = q.cancelled[max(0, len(q.cancelled)-depth):]
	}
	q.changed.fire()
}

// drop takes an entry out of the queue; false when it is out already.
func (q *queue) drop(e *entry) bool {
	i := slices.Index(q.live, e)
	if i < 0 {
		return false
	}
	e.expiry.Stop()
	q.live = slices.Delete(q.live, i, i+1)
	return true
}

func (q *queue) expire(e *entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settle(e, wire.Envelope{ExitCode: wire.ExitTimeout, Stderr: fmt.Sprintf("expired: the host gave no sign for %s; is its relay running?\n", e.life)})
}

// settle answers a request; false when it is answered or withdrawn.
func (q *queue) settle(e *entry, result wire.Envelope) bool {
	if !q.drop(e) {
		return false
	}
	e.result, e.keep = result, time.Now().Add(store.ResultTTL)
	close(e.done)
	q.kept = append(q.kept, e)
	q.forget()
	q.changed.fire()
	return true
}

// forget drops kept results that are too old, or too many.
func (q *queue) forget() {
	now, size, from := time.Now(), 0, len(q.kept)
	for from > 0 && len(q.kept)-from < keptResults {
		e := q.kept[from-1]
		size += len(e.action.Params) + len(e.result.Stdout) + len(e.result.Stderr)
		if size > keptBytes || now.After(e.keep) {
			break
		}
		from--
	}
	q.kept = slices.Delete(q.kept, 0, from)
}

// resolve answers the request of an action; false when nobody waits for it.
func (q *queue) resolve(id string, result wire.Envelope) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.find(id)
	return e != nil && q.settle(e, result)
}

func (q *queue) find(id string) *entry {
	i := slices.IndexFunc(q.live, func(e *entry) bool { return e.action.ID == id })
	if i < 0 {
		return nil
	}
	return q.live[i]
}

// heartbeat extends leases and lives, and tells which actions are still wanted.
func (q *queue) heartbeat(ids []string) (wanted []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wanted = []string{}
	for _, id := range ids {
		if e := q.find(id); e != nil && e.expiry.Reset(e.life) {
			e.sign(time.Now())
			wanted = append(wanted, id)
		}
	}
	return wanted
}

// sign notes that the host has the entry.
func (e *entry) sign(now time.Time) {
	e.handed, e.leased, e.redeliver = true, now.Add(lease), now.Add(redeliverFor)
}

// take hands out what is due, and what was given up. When nothing is, next is
// when the first lease ends; zero means never.
func (q *queue) take() (actions []Action, cancelled []string, next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, size := time.Now(), 0
	for _, e := range q.live {
		again := e.handed
		switch {
		case again && now.After(e.redeliver):
			continue // the host may have done it and forgotten
		case again && now.Before(e.leased):
			if next.IsZero() || e.leased.Before(next) {
				next = e.leased
			}
			continue
		case len(actions) > 0 && size+len(e.action.Params) > handedBytes:
			return actions, q.told(), next
		}
		size += len(e.action.Params)
		actions = append(actions, e.action)
		e.handed, e.leased = true, now.Add(lease)
		if !again {
			e.redeliver = now.Add(redeliverFor)
		}
	}
	return actions, q.told(), next
}

func (q *queue) told() []string {
	ids := q.cancelled
	q.cancelled = nil
	return ids
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.live)
}

// status tells how a request stands, by its action's id or its own; result is
// nil while it waits.
func (q *queue) status(id string) (result *wire.Envelope, known bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forget()
	for _, e := range slices.Concat(q.live, q.kept) {
		if e.action.ID != id && e.action.RequestID != id {
			continue
		}
		select {
		case <-e.done:
			return &e.result, true
		default:
			return nil, true
		}
	}
	return nil, false
}
