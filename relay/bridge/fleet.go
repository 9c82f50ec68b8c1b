package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/atomicfile"
	"github.com/madarco/agentbox/core/wire"
)

// FleetConfig says what a Fleet works with.
type FleetConfig struct {
	// Dir is where links and cursors lie, apart from the relay's database: a copy
	// of that holds no token. The bridge's token must be presented again after a
	// restart, so a hash would not do, and a key to encrypt it would have to lie
	// beside it; the files are the user's alone instead, mode 0600.
	Dir  string
	Host Host
	// Recover finds the address of a box whose connection is lost; see
	// PollerConfig. nil where addresses don't change.
	Recover func(ctx context.Context, boxID string) (string, error)
	// Transport is shared by all pollers, NewTransport's if nil.
	Transport http.RoundTripper
	Log       *slog.Logger
}

// Fleet owns the pollers of all boxes that have a bridge.
type Fleet struct {
	cfg FleetConfig

	mu      sync.Mutex // held while pollers start and stop
	closed  bool
	pollers map[string]*poll
}

// poll is a poller that runs.
type poll struct {
	link   wire.BridgeLink
	cancel context.CancelFunc
	done   chan struct{}
}

// NewFleet makes a fleet without pollers.
func NewFleet(cfg FleetConfig) *Fleet {
	if cfg.Transport == nil {
		cfg.Transport = NewTransport()
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Fleet{cfg: cfg, pollers: map[string]*poll{}}
}

func (f *Fleet) linkFile(boxID string) string { return filepath.Join(f.cfg.Dir, boxID+".link.json") }

func (f *Fleet) cursorFile(boxID string) string {
	return filepath.Join(f.cfg.Dir, boxID+".cursor.json")
}

// Register keeps the link of a box and polls it. A poller with the same link goes
// on as it is; another one is replaced, and the new one begins where it was.
func (f *Fleet) Register(boxID string, link wire.BridgeLink) error {
	if err := CheckLink(link); err != nil {
		return err
	}
	if !core.ValidBoxID(boxID) {
		return fmt.Errorf("keep the bridge of box %s: %w", core.Untrusted(boxID).Quote(), core.ErrInvalid)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.pollers[boxID]; p != nil && p.link == link {
		return nil
	}
	if err := f.keep(f.linkFile(boxID), link); err != nil {
		return fmt.Errorf("keep the bridge of box %s: %w", boxID, err)
	}
	f.start(boxID, link)
	return nil
}

// Open polls a box whose link was kept by an earlier relay; without one it does
// nothing.
func (f *Fleet) Open(boxID string) error {
	var link wire.BridgeLink
	if known, err := read(f.linkFile(boxID), &link); err != nil || !known {
		return err
	}
	if err := CheckLink(link); err != nil {
		return fmt.Errorf("read %s: %w", f.linkFile(boxID), err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pollers[boxID] == nil {
		f.start(boxID, link)
	}
	return nil
}

// start replaces a box's poller. The lock is held.
func (f *Fleet) start(boxID string, link wire.BridgeLink) {
	f.stop(boxID)
	if f.closed {
		return
	}
	var cursor Cursor
	if _, err := read(f.cursorFile(boxID), &cursor); err != nil {
		f.cfg.Log.Warn("a box's events are read from the first again", "box", boxID, "err", err)
	}
	cfg := PollerConfig{
		BoxID: boxID, Link: link, Cursor: cursor, Host: f.cfg.Host, Transport: f.cfg.Transport, Log: f.cfg.Log,
		Save: func(c Cursor) error { return f.keep(f.cursorFile(boxID), c) },
	}
	if f.cfg.Recover != nil {
		cfg.Recover = func(ctx context.Context) (string, error) { return f.cfg.Recover(ctx, boxID) }
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &poll{link: link, cancel: cancel, done: make(chan struct{})}
	f.pollers[boxID] = p
	go func() {
		defer close(p.done)
		NewPoller(cfg).Run(ctx)
	}()
}

// stop ends a box's poller. The lock is held.
func (f *Fleet) stop(boxID string) {
	if p := f.pollers[boxID]; p != nil {
		p.cancel()
		<-p.done
		delete(f.pollers, boxID)
	}
}

// Forget ends a box's poller and removes what was kept of its bridge.
func (f *Fleet) Forget(boxID string) error {
	if !core.ValidBoxID(boxID) {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop(boxID)
	for _, file := range []string{f.linkFile(boxID), f.cursorFile(boxID)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget the bridge of box %s: %w", boxID, err)
		}
	}
	return nil
}

// Close ends all pollers; none starts any longer.
func (f *Fleet) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, p := range f.pollers {
		p.cancel()
	}
	for boxID := range f.pollers {
		f.stop(boxID)
	}
}

func (f *Fleet) keep(file string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.cfg.Dir, 0o700); err != nil {
		return err
	}
	return atomicfile.Write(file, append(raw, '\n'), 0o600)
}

// read decodes a file of ours; false when there is none.
func read(file string, dst any) (bool, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = wire.Decode(raw, dst)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", file, err)
	}
	return true, nil
}
