package server

import (
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// slots counts the requests that each box has open.
type slots struct {
	mu   sync.Mutex
	open map[string]int
}

func (s *slots) take(box string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[string]int{}
	}
	if s.open[box] >= maxRequests {
		return false
	}
	s.open[box]++
	return true
}

func (s *slots) give(box string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[box]--; s.open[box] == 0 {
		delete(s.open, box)
	}
}

// bounded turns away what exceeds a box's share of open requests.
func bounded(slots *slots) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			box := boxOf(r).Box.ID
			if !slots.take(box) {
				w.Header().Set("Retry-After", "5")
				writeError(w, http.StatusServiceUnavailable, "the box has too many requests open", "let some finish first")
				return
			}
			defer slots.give(box)
			next.ServeHTTP(w, r)
		})
	}
}

// limitedListener accepts at most a number of connections at one time; the
// others wait in the kernel's queue.
type limitedListener struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

// Limited bounds the connections of a listener.
func Limited(l net.Listener, n int) net.Listener {
	return &limitedListener{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: conn, free: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// crowd bounds the connections of all boxes together, so that descriptors stay
// for the user. A listener of it ends at once what would be too much: to wait
// would let boxes that are idle hold what others need.
type crowd chan struct{}

// Of the descriptors of the process, ownFiles stay for the relay and the user;
// each connection of a box may need filesPerConn, with the programs that it
// makes the relay start.
const ownFiles, filesPerConn = 256, 4

// newCrowd is a crowd for a process that may have so many files open.
func newCrowd(files uint64) crowd {
	n := 64
	if files > ownFiles {
		n = max(n, int(min(files-ownFiles, 1<<16))/filesPerConn)
	}
	return make(crowd, n)
}

// openFiles is how many files this process may have open.
func openFiles() uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 0
	}
	return uint64(r.Cur) //nolint:unconvert // the type differs between systems
}

type crowdListener struct {
	net.Listener
	crowd crowd
}

func (l crowdListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.crowd <- struct{}{}:
			return &limitedConn{Conn: conn, free: sync.OnceFunc(func() { <-l.crowd })}, nil
		default:
			_ = conn.Close()
		}
	}
}

// BoxListener bounds the connections of a listener that boxes reach: to n, and
// together with those of all other boxes.
func (s *Server) BoxListener(l net.Listener, n int) net.Listener {
	return Limited(crowdListener{l, s.crowd}, n)
}

type limitedConn struct {
	net.Conn
	free func()
}

func (c *limitedConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// limiter lets a few events of a name through, then one every refill.
type limiter struct {
	mu   sync.Mutex
	seen map[string]*allowance
}

type allowance struct {
	left    int
	skipped int
	at      time.Time
}

const (
	burst       = 10
	refill      = 10 * time.Second
	maxLimiters = 1000 // names beyond share one allowance
)

// take tells whether the event may be recorded, and how many were not before.
func (l *limiter) take(name string) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[string]*allowance{}
	}
	a := l.seen[name]
	if a == nil {
		if len(l.seen) >= maxLimiters {
			name = ""
		}
		if a = l.seen[name]; a == nil {
			a = &allowance{left: burst, at: time.Now()}
			l.seen[name] = a
		}
	}
	if gained := int(time.Since(a.at) / refill); gained > 0 {
		a.left = min(burst, a.left+gained)
		a.at = a.at.Add(time.Duration(gained) * refill)
	}
	if a.left == 0 {
		a.skipped++
		return 0, false
	}
	a.left--
	skipped, a.skipped = a.skipped, 0
	return skipped, true
}
