package daemon

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/control"
	"github.com/madarco/agentbox/ctl/forwarder"
	"github.com/madarco/agentbox/ctl/landing"
	"github.com/madarco/agentbox/ctl/relayenv"
)

// DefaultStateDir is where a box keeps what a restart must not lose.
const DefaultStateDir = "/var/lib/agentbox"

const (
	// flushTime bounds the last landing when the box stops, drainTime the
	// requests that pass through the forwarder then. Both fit into what
	// process 1 allows.
	flushTime, drainTime = 10 * time.Second, 2 * time.Second
	// retryTime is the pause before what could not be started is tried again.
	retryTime = 5 * time.Second
)

// Options configure Run.
type Options struct {
	Socket   string
	StateDir string
	Version  string
	// BridgeToken is the host's key to the bridge of a cloud box. The daemon has
	// it from a descriptor, never from a file.
	BridgeToken string
	// Hangup tells the daemon to read its files again.
	Hangup <-chan os.Signal
	Log    *log.Logger
}

// Run is the daemon until ctx ends. The error wraps ErrRunning when another
// one is there.
func Run(ctx context.Context, o Options) error {
	for _, path := range []string{o.Socket + ".lock", filepath.Join(o.StateDir, "ctl.lock")} {
		held, err := lock(path)
		if err != nil {
			return err
		}
		defer held.Close()
	}
	ln, err := control.Listen(o.Socket)
	if err != nil {
		return err
	}
	d := &daemon{Options: o, begun: time.Now(), watched: map[string]*watched{}, broken: make(chan error, 1)}
	defer d.stop()
	retry := d.apply() // before the first answer: a daemon that answers works

	failed := make(chan error, 1)
	server := start(func(ctx context.Context) { failed <- control.Serve(ctx, ln, d.handle) })
	defer server.stop()
	o.Log.Printf("listening on %s", o.Socket)
	for {
		select {
		case <-ctx.Done():
			d.flush(context.WithoutCancel(ctx))
			return nil
		case err := <-failed:
			return err
		case err := <-d.broken:
			d.forwarder = nil
			d.setRelay(func(r *Relay) { r.Listen, r.Problem = "", err.Error() })
			retry = time.After(retryTime)
		case <-o.Hangup:
			retry = d.apply()
		case <-retry:
			retry = d.apply()
		}
	}
}

// unit is a goroutine that the daemon owns.
type unit struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func start(run func(context.Context)) unit {
	ctx, cancel := context.WithCancel(context.Background())
	u := unit{cancel, make(chan struct{})}
	go func() {
		defer close(u.done)
		run(ctx)
	}()
	return u
}

func (u unit) stop() { u.cancel(); <-u.done }

// watched is a repository whose commits are landed.
type watched struct {
	repo    landing.Repo
	watcher *landing.Watcher
	unit    unit
}

type daemon struct {
	Options
	begun time.Time

	// mu guards what the control socket's requests read; Run's goroutine alone
	// changes it.
	mu      sync.Mutex
	relay   Relay
	watched map[string]*watched
	order   []string

	forwarder *unit      // serves the relay's address, as forwarder or as bridge
	broken    chan error // the forwarder ended by itself
}

// apply makes the units match the files of the box. What fails is tried again
// when the returned channel fires.
func (d *daemon) apply() <-chan time.Time {
	if err := errors.Join(d.applyRelay(), d.applyRepos()); err != nil {
		d.Log.Printf("%v; tried again in %v", err, retryTime)
		return time.After(retryTime)
	}
	return nil
}

// relayAddr is where the box's tools expect the relay.
func (d *daemon) relayAddr() string {
	addr, ok := relayAddr(os.Getenv("AGENTBOX_BOX_RELAY_PORT"))
	if !ok {
		d.Log.Printf("AGENTBOX_BOX_RELAY_PORT is no port; using %s", addr)
	}
	return addr
}

func (d *daemon) applyRelay() error {
	if cloud() {
		return d.applyBridge()
	}
	upstream := relayenv.Lookup(relayenv.HostURL)
	if upstream == "" || d.forwarder != nil {
		d.setRelay(func(r *Relay) { r.Upstream = upstream })
		return nil
	}
	addr := d.relayAddr()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		err = fmt.Errorf("open the relay's address in the box: %w", err)
		d.setRelay(func(r *Relay) { *r = Relay{Upstream: upstream, Problem: err.Error()} })
		return err
	}
	d.setRelay(func(r *Relay) { *r = Relay{Listen: addr, Upstream: upstream} })
	d.serveRelay(ln, forwarder.New(func() (string, string) { return relayenv.Lookup(relayenv.HostURL), relayenv.Lookup(relayenv.Token) }))
	return nil
}

// serveRelay serves the relay's address in the box.
func (d *daemon) serveRelay(ln net.Listener, handler http.Handler) {
	u := start(func(ctx context.Context) {
		if err := forwarder.Serve(ctx, ln, handler, drainTime); err != nil {
			d.Log.Print(err)
			d.broken <- err
		}
	})
	d.forwarder = &u
}

func (d *daemon) setRelay(change func(*Relay)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.relay)
}

func (d *daemon) applyRepos() error {
	repos, err := landing.ReadList(d.StateDir)
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	var order []string
	for _, repo := range repos {
		wanted[repo.Key] = true
		order = append(order, repo.Key)
		old := d.watched[repo.Key]
		if old != nil && reflect.DeepEqual(old.repo, repo) {
			continue
		}
		if old != nil {
			old.unit.stop()
		}
		d.watch(repo)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.order = order
	for key, w := range d.watched {
		if !wanted[key] {
			w.unit.stop()
			delete(d.watched, key)
		}
	}
	return nil
}

func (d *daemon) watch(repo landing.Repo) {
	watcher := landing.NewWatcher(repo, d.Log)
	w := &watched{repo: repo, watcher: watcher, unit: start(watcher.Run)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watched[repo.Key] = w
}

// watchers lists the watchers in the order of the box's repositories.
func (d *daemon) watchers() []*landing.Watcher {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*landing.Watcher
	for _, key := range d.order {
		all = append(all, d.watched[key].watcher)
	}
	return all
}

// flush hands in, before the box stops, what has not landed.
func (d *daemon) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	states, err := d.land(ctx)
	if err != nil {
		d.Log.Printf("land before stopping: %v", err)
	}
	for _, s := range states {
		if s.Phase == landing.Pending || s.Phase == landing.Sending {
			d.Log.Printf("%s stays in the box at %s: %s", s.Branch, s.Tip.Short(), s.Problem)
		}
	}
}

// stop ends every unit: the watchers first, which use the forwarder.
func (d *daemon) stop() {
	for _, w := range d.watched {
		w.unit.stop()
	}
	if d.forwarder != nil {
		d.forwarder.stop()
	}
}

// relayAddr is the relay's address in the box on another port, if port is one;
// ok is false when it is none.
func relayAddr(port string) (addr string, ok bool) {
	if port == "" {
		return wire.BoxRelayAddr, true
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return wire.BoxRelayAddr, false
	}
	return net.JoinHostPort("127.0.0.1", port), true
}
