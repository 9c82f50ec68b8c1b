package server

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/bridge"
	"github.com/madarco/agentbox/relay/budget"
	"github.com/madarco/agentbox/relay/credentials"
	"github.com/madarco/agentbox/relay/packscan"
	"github.com/madarco/agentbox/relay/store"
)

// Config says what a server works with.
type Config struct {
	Home  core.Home
	Store store.Store
	Gates relay.Gates
	// Version is what the operator's /healthz tells.
	Version string
	// ApprovalTTL is how long a question stands, 24 hours if zero.
	ApprovalTTL time.Duration
	// ApprovalsOff lets through what a program may answer, without a question.
	// What takes a person is still asked.
	ApprovalsOff bool
	// Policy is what the user has set about host actions for all boxes.
	Policy policy.Settings
	// Methods are the host actions beside git's own, by RPC method.
	Methods map[string]relay.Method
	// MaxPack is how many bytes a box may send at once, packscan.Ceiling's if zero.
	MaxPack int64
	// Budget bounds what a box may cost, budget.Defaults where zero.
	Budget budget.Limits
	// PreviewURL finds where the bridge of a box is now; nil where that never
	// changes.
	PreviewURL func(ctx context.Context, box core.Box) (string, error)
	// Log gets what a person may want to look up later; slog.Default if nil.
	Log *slog.Logger
	// Shutdown is called when the operator asks the relay to end.
	Shutdown func()
}

// Bounds per box.
const (
	// maxPending is how many questions of a box may wait.
	maxPending = 20
	// maxAudit is how many bytes of audit entries a box may cause, ever.
	maxAudit = 64 << 20
	// maxBody bounds JSON bodies.
	maxBody = 1 << 20
	// maxRequests and maxConns bound what a box has open at one time. Pushes
	// that wait for the user are among them.
	maxRequests = 64
	maxConns    = 128
	// ballastSize is enough for many answers and removals, each of some kilobytes.
	ballastSize = 8 << 20
)

// Server is a running relay without its sockets. New makes one, Close ends it.
type Server struct {
	cfg  Config
	st   store.Store
	log  *slog.Logger
	keys keyLocks

	ledger *budget.Ledger
	disk   budget.Disk
	pace   *budget.Pace
	logins *credentials.Keeper

	// serving ends first: nobody waits any longer, nothing new begins. working
	// ends when work that has begun must stop, too.
	serving, working   context.Context //nolint:containedctx // the server's own life
	endServing, endAll context.CancelFunc

	mu       sync.Mutex // guards begun against Close
	closed   bool
	begun    sync.WaitGroup
	channels map[string]*channel
	bridges  *bridge.Fleet

	// registering is held while a registration is read, changed and written.
	registering sync.Mutex

	refusals limiter // of audit rows about wrong tokens
	troubles limiter // of log lines about failed requests
	told     heard
	ci       ciConsents
	notices  notices
	crowd    crowd
	ballast  budget.Ballast
}

// New makes a server. Recover comes next, then channels and sockets.
func New(cfg Config) *Server {
	if cfg.ApprovalTTL == 0 {
		cfg.ApprovalTTL = 24 * time.Hour
	}
	if cfg.MaxPack == 0 {
		cfg.MaxPack = packscan.Ceiling.PackBytes
	}
	cfg.Budget = cfg.Budget.Or(budget.Defaults)
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Shutdown == nil {
		cfg.Shutdown = func() {}
	}
	s := &Server{
		cfg: cfg, st: cfg.Store, log: cfg.Log, channels: map[string]*channel{},
		ledger: budget.NewLedger(cfg.Budget, accountFile(cfg.Home)),
		disk:   budget.Disk{Reserve: cfg.Budget.Reserve},
		logins: credentials.New(cfg.Home, time.Now),
		pace:   budget.NewPace(cfg.Budget),
		crowd:  newCrowd(openFiles()),
	}
	s.ballast = budget.Ballast{Path: filepath.Join(filepath.Dir(cfg.Home.OperatorSocket()), "ballast"), Size: ballastSize}
	s.ci.path = cfg.Home.CIConsents()
	s.bridges = s.newFleet()
	s.serving, s.endServing = context.WithCancel(context.Background())
	s.working, s.endAll = context.WithCancel(context.Background())
	return s
}

// Context ends when the server begins to close. It is the base context of the
// HTTP servers in front of it.
func (s *Server) Context() context.Context { return s.serving }

// errStopping is told to whoever waits when the relay ends.
var errStopping = errors.New("the relay is stopping; ask again in a moment")

// Close ends all waits and channels, lets work that has begun finish until ctx
// ends, and then stops it: its intents stay, for Recover. It does not close
// the store.
func (s *Server) Close(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.endServing()
	s.bridges.Close()
	done := make(chan struct{})
	go func() {
		s.begun.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.endAll()
	<-done
	s.closeChannels()
	if err := s.ledger.Close(); err != nil {
		s.log.Error("close the boxes' accounts", "err", err)
	}
}

// begin counts work until done is called; false while closing.
func (s *Server) begin() (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	s.begun.Add(1)
	return s.begun.Done, true
}

// keyLocks are mutexes by name that a context can give up on.
type keyLocks struct {
	mu    sync.Mutex
	locks map[string]*keyLock
}

type keyLock struct {
	users int
	held  chan struct{} // has room for one: full while held
}

func (k *keyLocks) lock(ctx context.Context, key string) (unlock func(), err error) {
	k.mu.Lock()
	if k.locks == nil {
		k.locks = map[string]*keyLock{}
	}
	l := k.locks[key]
	if l == nil {
		l = &keyLock{held: make(chan struct{}, 1)}
		k.locks[key] = l
	}
	l.users++
	k.mu.Unlock()
	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.locks, key)
		}
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
