// Package federation is the plane's side of laptops that push their state up:
// typed routes, one for each thing that a laptop may write, and none to read.
//
// Invariants:
//   - A laptop writes its own boxes alone: a federated box has a token that no
//     request can present, made of the laptop's name and the box's id, and only
//     who makes the same one may change it. A box of the plane's own, or of
//     another laptop, is never touched.
//   - No login and no token of a box arrives: what is sent as an event of that
//     kind is dropped.
//   - A laptop's bearer is compared as a hash in constant time; without laptops
//     every request is refused.
package federation

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// Bounds.
const (
	maxBody = 2 << 20
	// MaxEvents is how many events one request may bring, maxPending how many
	// questions a laptop may have.
	MaxEvents  = 256
	maxPending = 1000
	// PendingTTL is how long questions of a laptop are shown that gives no sign.
	PendingTTL = 3 * time.Minute
	// callTime bounds what one request may take.
	callTime = 10 * time.Second
)

// Store is what the plane keeps of laptops' boxes.
type Store interface {
	RegisterBox(ctx context.Context, box core.Box, token store.TokenHash) (store.Registration, error)
	Box(ctx context.Context, id string) (store.Registration, error)
	ForgetBox(ctx context.Context, id string) (bool, error)
	SetStatus(ctx context.Context, boxID string, snapshot json.RawMessage) error
	AppendEvent(ctx context.Context, boxID string, e wire.PostEvent) (wire.Event, error)
	Events(ctx context.Context, boxID string, since int64, limit int) ([]wire.Event, error)
}

// Config says whom a Plane serves.
type Config struct {
	Store Store
	// Laptops are the hashes of the laptops' bearers, by laptop.
	Laptops map[string]store.TokenHash
	// Log gets what failed; slog.Default if nil.
	Log *slog.Logger
}

// Plane serves laptops. New makes one; its routes are in Handler.
type Plane struct {
	cfg Config

	writing sync.Mutex // held from the check of a box's events to their end

	mu      sync.Mutex
	pending map[string]shown // by laptop
}

// shown is what a laptop last said about its questions.
type shown struct {
	facts []wire.PendingFacts
	until time.Time
}

// New makes a plane's side.
func New(cfg Config) *Plane {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Plane{cfg: cfg, pending: map[string]shown{}}
}

// Pending lists what waits for the user of a laptop that gave a sign lately.
func (p *Plane) Pending(laptop string) []wire.PendingFacts {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.pending[laptop]
	if time.Now().After(s.until) {
		delete(p.pending, laptop)
		return nil
	}
	return append([]wire.PendingFacts(nil), s.facts...)
}

// Token is the hash that marks a box as the laptop's. No bearer has it, since no
// header holds a line break.
func Token(laptop, boxID string) store.TokenHash {
	return store.HashToken("federated\n" + laptop + "\n" + boxID)
}

// Handler serves /federation/, and tells who looks for the generic route of old
// that it is gone.
func (p *Plane) Handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("PUT /federation/boxes/{id}", p.of(p.putBox))
	m.HandleFunc("DELETE /federation/boxes/{id}", p.of(p.deleteBox))
	m.HandleFunc("PUT /federation/boxes/{id}/status", p.of(p.putStatus))
	m.HandleFunc("POST /federation/boxes/{id}/events", p.of(p.postEvents))
	m.HandleFunc("PUT /federation/pending", p.of(p.putPending))
	m.HandleFunc("/admin/store", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusGone, wire.Error{Error: "the generic store is gone", Hint: "update the laptop's agentbox: it pushes to /federation/ by typed routes"})
	})
	m.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "not found") })
	return m
}

// call is a request of a laptop.
type call struct {
	context.Context //nolint:containedctx // the request's own
	laptop, box     string
	body            []byte
}

// of lets a laptop through and turns what came of its call into an answer.
func (p *Plane) of(do func(call) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		laptop, ok := p.laptop(r)
		if !ok {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "not a laptop's token")
			return
		}
		id := r.PathValue("id")
		if id != "" && !core.ValidBoxID(id) {
			refuse(w, http.StatusBadRequest, "this is no box id")
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			refuse(w, http.StatusRequestEntityTooLarge, "the body is too large, or ends too early")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), callTime)
		defer cancel()
		out, err := do(call{ctx, laptop, id, body})
		switch {
		case err == nil && out == nil:
			w.WriteHeader(http.StatusNoContent)
		case err == nil:
			answer(w, http.StatusOK, out)
		case errors.Is(err, wire.ErrBadJSON), errors.Is(err, core.ErrInvalid):
			refuse(w, http.StatusBadRequest, err.Error())
		case errors.Is(err, store.ErrTooLarge), errors.Is(err, store.ErrTooMany):
			refuse(w, http.StatusRequestEntityTooLarge, err.Error())
		case errors.Is(err, store.ErrNotFound):
			refuse(w, http.StatusNotFound, "the laptop has no such box here")
		case errors.Is(err, store.ErrExists):
			refuse(w, http.StatusConflict, "the box is not this laptop's")
		default:
			p.cfg.Log.Error("a laptop's call failed", "laptop", laptop, "err", err)
			refuse(w, http.StatusInternalServerError, "internal error")
		}
	}
}

// laptop finds who calls; it looks at all of them, whichever it is.
func (p *Plane) laptop(r *http.Request) (found string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", false
	}
	got := store.HashToken(token)
	for name, want := range p.cfg.Laptops {
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			found, ok = name, true
		}
	}
	return found, ok
}

// owned tells with store.ErrNotFound that there is no box of the id, and with
// store.ErrExists that it is somebody else's.
func (p *Plane) owned(c call) error {
	reg, err := p.cfg.Store.Box(c, c.box)
	if err == nil && reg.Token != Token(c.laptop, c.box) {
		err = store.ErrExists
	}
	return err
}

func (p *Plane) putBox(c call) (any, error) {
	var b wire.FederatedBox
	if err := wire.Decode(c.body, &b); err != nil {
		return nil, err
	}
	if b.Name == "" || len(b.Repos) > 100 {
		return nil, fmt.Errorf("%w: the box has no name, or too many repositories", core.ErrInvalid)
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	if err := p.owned(c); err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	box := core.Box{ID: c.box, Name: b.Name, Provider: b.Provider, CreatedAt: b.CreatedAt, ProjectIndex: b.ProjectIndex}
	for _, r := range b.Repos {
		if !core.ValidRepoKey(r.Key) {
			return nil, fmt.Errorf("%w: a repository has no valid key", core.ErrInvalid)
		}
		box.Repos = append(box.Repos, core.Repo{Key: r.Key, Kind: r.Kind, BoxPath: r.BoxPath, Branch: r.Branch, Sanctioned: r.Sanctioned, Remote: r.Remote, RemoteURL: r.RemoteURL})
	}
	_, err := p.cfg.Store.RegisterBox(c, box, Token(c.laptop, c.box))
	return nil, err
}

func (p *Plane) deleteBox(c call) (any, error) {
	if err := p.owned(c); err != nil {
		return nil, err
	}
	_, err := p.cfg.Store.ForgetBox(c, c.box)
	return nil, err
}

func (p *Plane) putStatus(c call) (any, error) {
	var s wire.FederatedStatus
	if err := wire.Decode(c.body, &s); err != nil {
		return nil, err
	}
	if err := p.owned(c); err != nil {
		return nil, err
	}
	return nil, p.cfg.Store.SetStatus(c, c.box, s.Snapshot)
}

func (p *Plane) postEvents(c call) (any, error) {
	var in wire.FederatedEvents
	if err := wire.Decode(c.body, &in); err != nil {
		return nil, err
	}
	if len(in.Events) > MaxEvents {
		return nil, store.ErrTooMany
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	if err := p.owned(c); err != nil {
		return nil, err
	}
	var out wire.FederatedLast
	if in.After != nil {
		there, err := p.cfg.Store.Events(c, c.box, *in.After, len(in.Events))
		if err != nil {
			return nil, err
		}
		out.Last = *in.After
		if n := len(there); n > 0 {
			out.Last, in.Events = there[n-1].Seq, in.Events[n:]
		}
	}
	for _, e := range in.Events {
		if e.Type == "" || e.Type == "credentials-updated" {
			// Takes the event's place, so that the laptop's count holds.
			e = wire.PostEvent{Type: "relay.dropped"}
		}
		kept, err := p.cfg.Store.AppendEvent(c, c.box, e)
		if err != nil {
			return nil, err
		}
		out.Last = kept.Seq
	}
	return out, nil
}

func (p *Plane) putPending(c call) (any, error) {
	var in wire.FederatedPending
	if err := wire.Decode(c.body, &in); err != nil {
		return nil, err
	}
	if len(in.Pending) > maxPending {
		return nil, store.ErrTooMany
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending[c.laptop] = shown{in.Pending, time.Now().Add(PendingTTL)}
	return nil, nil //nolint:nilnil // 204
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // who asked may be gone
}

func refuse(w http.ResponseWriter, code int, text string) { answer(w, code, wire.Error{Error: text}) }
