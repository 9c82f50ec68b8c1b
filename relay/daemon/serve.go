package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gofrs/flock"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/atomicfile"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/autopause"
	"github.com/madarco/agentbox/relay/budget"
	"github.com/madarco/agentbox/relay/client"
	"github.com/madarco/agentbox/relay/connect"
	"github.com/madarco/agentbox/relay/gitgate"
	"github.com/madarco/agentbox/relay/packscan"
	"github.com/madarco/agentbox/relay/proc"
	"github.com/madarco/agentbox/relay/server"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/sqlite"
)

// ErrRunning: a relay serves this home already.
var ErrRunning = errors.New("a relay is running already")

// Config says what to serve.
type Config struct {
	Home    core.Home
	Version string
	// ApprovalTTL is how long a question stands, 24 hours if zero.
	ApprovalTTL time.Duration
	// ApprovalsOff is the user's own switch, see server.Config.
	ApprovalsOff bool
	// Policy is what the user has set about host actions for all boxes.
	Policy policy.Settings
	// Boxes reaches into boxes, for what is copied out of them and into them.
	Boxes relay.Boxes
	// Pauses sees and pauses boxes, as Autopause says at each look; nil pauses none.
	Pauses    autopause.Boxes
	Autopause func() autopause.Settings
	// Integrations reads what the user has set about services, at each call.
	Integrations connect.Settings
	// Budget bounds what a box may cost, budget.Defaults where zero.
	Budget budget.Limits
	// MaxPack is how many bytes a box may send at once before the user is asked,
	// packscan.Defaults' if zero.
	MaxPack int64
	// PlaneURL is the plane that the laptop's state is pushed up to, none if empty.
	PlaneURL string
	// Port opens, besides the boxes' sockets, a TCP channel for boxes that can
	// reach none: on Host, 127.0.0.1 if empty. 0 opens none.
	Host string
	Port int
	// Log gets what happens; slog.Default if nil.
	Log *slog.Logger
	// Ready, if set, is called once the operator socket answers.
	Ready func()
}

const (
	// stopGrace is how long work that has begun may go on after a stop.
	stopGrace = 10 * time.Second
	// tidyEvery is how often old rows go.
	tidyEvery = time.Hour
	// gcPercent trades a little CPU for a small idle footprint, memorySoft
	// keeps bursts from staying.
	gcPercent  = 40
	memorySoft = 96 << 20
)

// Serve runs a relay until ctx ends or the operator stops it. The error wraps
// ErrRunning when another one serves the home.
func Serve(ctx context.Context, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memorySoft)
	unlock, err := claim(ctx, cfg.Home)
	if err != nil {
		return err
	}
	defer unlock()
	st, err := sqlite.Open(ctx, cfg.Home.RelayDB(), sqlite.Options{Head: cfg.Home.AuditHead()})
	if err != nil {
		return fmt.Errorf("open the relay's database: %w", err)
	}
	err = serve(ctx, cfg, st)
	return errors.Join(err, st.Close())
}

// claim takes the home's lock, so that everything below is this relay's alone.
// It waits for a relay that is just leaving.
func claim(ctx context.Context, home core.Home) (unlock func(), err error) {
	if err := home.Create(); err != nil {
		return nil, err
	}
	for _, dir := range []string{filepath.Dir(home.OperatorSocket()), filepath.Dir(home.RelayDB())} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the relay's folder: %w", err)
		}
	}
	lock := serveLock(home)
	for {
		taken, err := lock.TryLock()
		if err != nil {
			return nil, fmt.Errorf("lock the relay's home: %w", err)
		}
		if taken {
			return func() { _ = lock.Unlock() }, nil
		}
		if _, err := Status(ctx, home); !errors.Is(err, client.ErrNotRunning) && !errors.Is(err, client.ErrStopping) {
			return nil, fmt.Errorf("serve %s: %w", home, ErrRunning)
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// serveLock is held by the relay that serves.
func serveLock(home core.Home) *flock.Flock {
	return flock.New(filepath.Join(filepath.Dir(home.OperatorSocket()), "relay.lock"), flock.SetPermissions(0o600))
}

func serve(ctx context.Context, cfg Config, st store.Store) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	gates, err := gitgate.New(cfg.Home, gitgate.Options{Ask: packscan.Defaults.Raised(cfg.MaxPack)})
	if err != nil {
		return err
	}
	if err := gates.Sweep(ctx); err != nil {
		cfg.Log.Error("clean up after an earlier relay", "err", err)
	}
	defer gates.Settle()
	defer beside(ctx, func(ctx context.Context) { gates.Maintain(ctx, cfg.Log) })()
	actions, err := methods(cfg, st)
	if err != nil {
		return err
	}
	srv := server.New(server.Config{
		Home: cfg.Home, Store: st, Gates: gates, Version: cfg.Version, Log: cfg.Log, Shutdown: stop,
		Policy: cfg.Policy, Methods: actions, ApprovalTTL: cfg.ApprovalTTL, ApprovalsOff: cfg.ApprovalsOff, Budget: cfg.Budget,
	})
	defer finish(ctx, srv)
	if err := srv.HoldRoom(); err != nil {
		cfg.Log.Error("hold room for the user", "err", err)
	}
	if err := srv.Recover(ctx); err != nil {
		return err
	}
	regs, err := st.Boxes(ctx)
	if err != nil {
		return fmt.Errorf("list the boxes: %w", err)
	}
	for _, reg := range regs {
		if err := srv.OpenChannel(reg.Box); err != nil {
			cfg.Log.Error("a box stays without its channel", "box", reg.Box.ID, "err", err)
		}
		if err := srv.OpenBridge(reg.Box.ID); err != nil {
			cfg.Log.Error("a box's bridge is not polled", "box", reg.Box.ID, "err", err)
		}
	}
	defer federate(ctx, cfg, st)()
	if cfg.Pauses != nil {
		pausing := autopause.Config{Boxes: cfg.Pauses, Records: st, Settings: cfg.Autopause, Log: cfg.Log}
		defer beside(ctx, func(ctx context.Context) { autopause.Run(ctx, pausing) })()
	}
	if err := writePID(cfg.Home); err != nil {
		return err
	}
	defer os.Remove(cfg.Home.RelayPID()) //nolint:errcheck // a stale one is ignored
	return listen(ctx, cfg, st, srv)
}

// beside runs what goes on for as long as the relay serves, until it is told to
// end.
func beside(ctx context.Context, run func(ctx context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	return func() { cancel(); <-done }
}

// finish lets what has begun come to its end, for a while.
func finish(ctx context.Context, srv *server.Server) {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	srv.Close(grace)
}

// listen serves the operator socket, and the TCP channel if there is one,
// until ctx ends or one of them fails.
func listen(ctx context.Context, cfg Config, st store.Store, srv *server.Server) error {
	operator := server.NewHTTPServer(srv.Context(), srv.OperatorHandler(), cfg.Log)
	operator.ConnContext = server.WithPeer
	failed := make(chan error, 2)
	start := func(s *http.Server, l net.Listener) func() {
		go func() { failed <- s.Serve(l) }()
		return func() {
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			if s.Shutdown(grace) != nil {
				_ = s.Close()
			}
		}
	}
	if cfg.Port != 0 {
		l, hosts, err := listenTCP(cfg)
		if err != nil {
			return err
		}
		defer start(server.NewHTTPServer(srv.Context(), srv.SharedBoxHandler(hosts), cfg.Log), srv.BoxListener(l, maxTCP))()
	}
	l, err := listenOperator(cfg.Home)
	if err != nil {
		return err
	}
	defer start(operator, l)()
	defer finish(ctx, srv) // first: waits and streams end with it
	cfg.Log.Info("the relay serves", "pid", os.Getpid(), "version", cfg.Version, "approvalsOff", cfg.ApprovalsOff)
	if cfg.Ready != nil {
		cfg.Ready()
	}
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("serve: %w", err)
		case <-tidy.C:
			if _, err := st.ExpireApprovals(ctx); err != nil {
				cfg.Log.Error("expire old questions", "err", err)
			}
			if err := srv.HoldRoom(); err != nil {
				cfg.Log.Error("hold room for the user", "err", err)
			}
			if err := st.Prune(ctx); err != nil {
				cfg.Log.Error("forget what is old", "err", err)
			}
		}
	}
}

// maxTCP bounds the connections of all boxes on the shared channel.
const maxTCP = 512

func listenOperator(home core.Home) (net.Listener, error) {
	socket := home.OperatorSocket()
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket of an earlier relay: %w", err)
	}
	l, err := net.Listen("unix", socket) // in a folder of mode 0700
	if err != nil {
		return nil, fmt.Errorf("open the operator socket: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// listenTCP opens the shared channel. hosts are the names by which boxes and
// tests call it; a page that was rebound to it calls another.
func listenTCP(cfg Config) (l net.Listener, hosts []string, err error) {
	host := cfg.Host
	if host == "" {
		host = "127.0.0.1"
	}
	port := strconv.Itoa(cfg.Port)
	if l, err = net.Listen("tcp", net.JoinHostPort(host, port)); err != nil {
		return nil, nil, fmt.Errorf("open the boxes' TCP channel: %w", err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		cfg.Log.Warn("the boxes' TCP channel is open to more than this machine; tokens go over it in clear", "host", host)
	}
	for _, name := range []string{host, "127.0.0.1", "::1", "localhost", "host.docker.internal"} {
		hosts = append(hosts, net.JoinHostPort(name, port))
	}
	return l, hosts, nil
}

// writePID tells people and Stop which process it is; the start time keeps a
// reused pid from being taken for it.
func writePID(home core.Home) error {
	started, err := proc.Started(os.Getpid())
	if err != nil && !errors.Is(err, proc.ErrUnsupported) {
		return err
	}
	return atomicfile.Write(home.RelayPID(), fmt.Appendf(nil, "%d\n%s\n", os.Getpid(), started), 0o600)
}
