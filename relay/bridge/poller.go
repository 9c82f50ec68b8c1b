package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/madarco/agentbox/core/wire"
)

const (
	// pollTime bounds a poll; shortPoll does for the next shortPolls after a
	// gateway on the way gave up on one.
	pollTime, shortPoll = 25 * time.Second, 8 * time.Second
	shortHold           = 5 * time.Second
	shortPolls          = 5
	// postTime bounds a result or heartbeat; resultTries is how often a result is
	// posted before it waits for the action to be handed out again.
	postTime    = 25 * time.Second
	resultTries = 5
	// backoffFirst doubles up to backoffMost while the box does not answer.
	backoffFirst, backoffMost = 1500 * time.Millisecond, 30 * time.Second
	// minRest is the least time between two polls that were answered: a box that
	// answers at once, always, costs no more.
	minRest = 250 * time.Millisecond
	// beatEvery keeps the leases of what runs.
	beatEvery = lease / 3
	// recoverTime bounds one search for the box's address.
	recoverTime = time.Minute
)

// Host is the brain behind a poller. Methods end soon after their context does.
type Host interface {
	// Act does what the box asks for and tells what came of it.
	Act(ctx context.Context, boxID string, req wire.Request) wire.Envelope
	// Serial names the repository that a request is about, empty for none: those
	// of one name are done one after another, in the box's order.
	Serial(ctx context.Context, boxID string, req wire.Request) string
	// Post takes an event as from the box's channel, logins and statuses among
	// them. An error means that it could not be kept now; what is refused is gone.
	Post(ctx context.Context, boxID string, e wire.PostEvent) error
}

// PollerConfig says what a Poller works with.
type PollerConfig struct {
	BoxID string
	Link  wire.BridgeLink
	// Cursor is what an earlier poller of the box saw, and Save keeps it.
	Cursor Cursor
	Save   func(Cursor) error
	Host   Host
	// Recover finds the address of a box whose connection is lost, "" if there is
	// no other. nil where addresses don't change.
	Recover func(ctx context.Context) (string, error)
	// Transport is NewTransport's if nil.
	Transport http.RoundTripper
	Log       *slog.Logger
}

// Poller fetches and does what one box asks for. Run is its only goroutine that
// others wait for, and owns the rest.
type Poller struct {
	cfg    PollerConfig
	seen   Cursor
	work   work
	shorts int  // polls that are still to be short
	told   bool // the failure was logged

	mu   sync.Mutex
	link wire.BridgeLink
}

// NewPoller makes a poller that has not begun.
func NewPoller(cfg PollerConfig) *Poller {
	if cfg.Transport == nil {
		cfg.Transport = NewTransport()
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	p := &Poller{cfg: cfg, seen: cfg.Cursor, link: cfg.Link}
	p.work.p = p
	return p
}

func (p *Poller) currentLink() wire.BridgeLink {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link
}

// Run polls until ctx ends. It waits for no person: what waits for one has ctx.
func (p *Poller) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var beats sync.WaitGroup
	beats.Go(func() { p.work.beat(ctx) })
	defer func() { cancel(); p.work.running.Wait(); beats.Wait() }()
	wait := backoffFirst
	for ctx.Err() == nil {
		begun := time.Now()
		err := p.poll(ctx)
		if err == nil {
			wait, p.told = backoffFirst, false
			pause(ctx, minRest-time.Since(begun))
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if p.failed(ctx, err) {
			wait = backoffFirst
			continue
		}
		pause(ctx, wait/2+rand.N(wait/2)) //nolint:gosec // guards nothing
		wait = min(2*wait, backoffMost)
	}
}

// failed notes an error, and tells whether the box has another address now.
func (p *Poller) failed(ctx context.Context, err error) (moved bool) {
	if !p.told {
		p.told = true
		p.cfg.Log.Warn("a box's bridge does not answer", "box", p.cfg.BoxID, "err", err)
	}
	if errors.Is(err, errStatus(http.StatusGatewayTimeout)) {
		p.shorts = shortPolls
	}
	if p.cfg.Recover == nil || !lost(err) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, recoverTime)
	defer cancel()
	address, err := p.cfg.Recover(ctx)
	link := p.currentLink()
	if err != nil || address == "" || address == link.PreviewURL {
		return false
	}
	link.PreviewURL = address
	if err := CheckLink(link); err != nil {
		p.cfg.Log.Error("a box's new address is not used", "box", p.cfg.BoxID, "err", err)
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link = link
	return true
}

// poll asks once and hands on what came.
func (p *Poller) poll(ctx context.Context) error {
	timeout, hold := pollTime, holdMost
	if p.shorts > 0 {
		p.shorts--
		timeout, hold = shortPoll, shortHold
	}
	var answer Poll
	if err := p.ask(ctx, timeout, http.MethodGet, pollPath(p.seen, hold), nil, &answer); err != nil {
		return err
	}
	if answer.Instance == "" || len(answer.Instance) > 100 {
		return errors.New("the bridge names no instance")
	}
	if p.seen.Instance != answer.Instance {
		first := p.seen == Cursor{}
		if p.seen = (Cursor{Instance: answer.Instance}); !first {
			return nil // the box's relay began anew, and so does the count
		}
	}
	before := p.seen
	err := p.deliver(ctx, answer)
	if p.seen != before {
		if saveErr := p.cfg.Save(p.seen); saveErr != nil {
			err = errors.Join(err, saveErr)
		}
	}
	p.work.cancel(answer.Cancelled)
	for _, a := range answer.Actions {
		p.work.accept(ctx, a)
	}
	return err
}

// deliver posts events, then logins, then the status, and moves the cursor along
// with what was taken.
func (p *Poller) deliver(ctx context.Context, answer Poll) error {
	for _, e := range answer.Events {
		if e.Seq <= p.seen.Events {
			continue
		}
		if err := p.cfg.Host.Post(ctx, p.cfg.BoxID, wire.PostEvent{Type: e.Type, TS: e.TS, Payload: e.Payload}); err != nil {
			return err
		}
		p.seen.Events = e.Seq
	}
	for _, login := range answer.Credentials {
		if err := p.special(ctx, "credentials-updated", login); err != nil {
			return err
		}
	}
	p.seen.Credentials = max(p.seen.Credentials, answer.CredentialsVersion)
	if answer.StatusVersion > p.seen.Status && answer.Status != nil {
		if err := p.special(ctx, "box-status", answer.Status); err != nil {
			return err
		}
		p.seen.Status = answer.StatusVersion
	}
	return nil
}

func (p *Poller) special(ctx context.Context, kind string, payload json.RawMessage) error {
	return p.cfg.Host.Post(ctx, p.cfg.BoxID, wire.PostEvent{Type: kind, Payload: payload})
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
