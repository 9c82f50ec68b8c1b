package gitgate

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay/packscan"
	"github.com/madarco/agentbox/relay/treecheck"
)

// Options configure a Host. The zero value is right for the product.
type Options struct {
	// Git is the absolute path of the git program; found on PATH if empty.
	Git string
	// Pack and Tree bound what a box may hand in; zero means packscan.Ceiling and
	// the defaults.
	Pack packscan.Limits
	Tree treecheck.Limits
	// Ask is what a pack may hold before what it brings becomes a question,
	// packscan.Defaults if zero.
	Ask packscan.Limits
	// Pieces is when stores are repacked, DefaultPieces if zero.
	Pieces Pieces
}

// Host runs git for one user's state folder. It is safe for concurrent use, by
// several processes too.
type Host struct {
	home core.Home
	run  runner
	pack packscan.Limits
	ask  packscan.Limits
	tree treecheck.Limits

	mu      sync.Mutex
	gates   map[string]*access
	left    sync.WaitGroup // what Settle waits for
	pieces  Pieces
	chores  chores
	fetches flights
	surveys memory[survey]
	facts   memory[policy.Facts]
	ciFiles memory[policy.CI]
}

// New finds git. The error wraps ErrNoGit when there is none.
func New(home core.Home, opts Options) (*Host, error) {
	if opts.Git == "" {
		git, err := findGit()
		if err != nil {
			return nil, err
		}
		opts.Git = git
	}
	if !filepath.IsAbs(opts.Git) {
		return nil, fmt.Errorf("git program %q: %w: give an absolute path", opts.Git, core.ErrInvalid)
	}
	if opts.Pack == (packscan.Limits{}) {
		opts.Pack = packscan.Ceiling
	}
	if opts.Ask == (packscan.Limits{}) {
		opts.Ask = packscan.Defaults
	}
	if opts.Tree == (treecheck.Limits{}) {
		opts.Tree = treecheck.Defaults
	}
	if opts.Pieces == (Pieces{}) {
		opts.Pieces = DefaultPieces
	}
	return &Host{
		home: home, run: runner{opts.Git}, pack: opts.Pack, ask: opts.Ask, tree: opts.Tree,
		gates: map[string]*access{}, pieces: opts.Pieces, chores: newChores(),
	}, nil
}

// SeedObjects is the folder that a box of the repository reads objects from.
func (h *Host) SeedObjects(key string) string { return filepath.Join(h.home.Seed(key), "objects") }

// access bounds what this process does in one gate at a time.
type access struct {
	sync.Mutex               // held while the gate changes
	size       atomic.Int64  // of its own objects on disk, as last measured
	serving    chan struct{} // full while maxServed transfers are under way
	left       chan struct{} // closed once all that pushes left to do is done; under the Host's mutex
}

// maxServed is how many packs go into or out of one gate at a time: each may
// take as much memory as a whole clone, and as long as its box likes.
const maxServed = 4

// gateAccess finds the bounds of a gate; first tells that the process has not
// met this gate yet.
func (h *Host) gateAccess(dir string) (a *access, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a = h.gates[dir]
	if a == nil {
		a, first = &access{serving: make(chan struct{}, maxServed)}, true
		h.gates[dir] = a
	}
	return a, first
}

// memory keeps what was found out about the latest commits.
type memory[T any] struct {
	mu  sync.Mutex
	all map[string]T
}

// memorySize bounds a memory; what is kept of one commit is bounded too.
const memorySize = 1000

func (m *memory[T]) get(key string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.all[key]
	return found, ok
}

// take is get that forgets.
func (m *memory[T]) take(key string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.all[key]
	delete(m.all, key)
	return found, ok
}

func (m *memory[T]) put(key string, found T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil || len(m.all) >= memorySize {
		m.all = map[string]T{} // all can be found out again
	}
	m.all[key] = found
}

// forget drops what is known about the commits of a gate.
func (m *memory[T]) forget(dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.all, func(key string, _ T) bool { return strings.HasPrefix(key, dir+"\x00") })
}

// ours is a command in a repository that only we write.
func (h *Host) ours(dir string, args ...string) command {
	return command{
		gitDir: dir, args: args, env: sealed, deadline: quick,
		config: []string{"core.hooksPath=/dev/null", "gc.auto=0", "core.alternateRefsCommand=true"},
	}
}
