package landing

import (
	"context"
	"errors"
	"log"
	"path/filepath"
	"sync"
	"time"

	"github.com/madarco/agentbox/core"
)

// pollTime is how often the refs are looked at without a hint: the safety net
// under inotify. Each poll reads a few small files.
const pollTime = 2 * time.Second

// Watcher lands the branches of one repository. Run owns all of its state.
type Watcher struct {
	repo     Repo
	act      effects
	queue    *queue // Run's
	requests chan request
	ended    chan struct{}

	mu     sync.Mutex
	states []State
}

// effects is the outside of a watcher.
type effects struct {
	hints <-chan struct{}
	look  func() map[core.BranchName]found
	push  func(_ context.Context, _ []update, held []core.ObjectID) (map[core.BranchName]string, error)
	close func()
}

// request asks for a landing now; the answer comes when it was tried.
type request struct{ answer chan<- []State }

// waiter is a request whose answer waits for a push to finish.
type waiter struct {
	after  int
	answer chan<- []State
}

// NewWatcher prepares to land a repository's branches. Without inotify it still
// works, by looking every two seconds.
func NewWatcher(repo Repo, logger *log.Logger) *Watcher {
	gitDir := filepath.Join(string(repo.Path), ".git")
	act := effects{
		push: func(ctx context.Context, updates []update, held []core.ObjectID) (map[core.BranchName]string, error) {
			return push(ctx, repo, updates, held)
		},
		close: func() {},
	}
	arm := func() error { return nil }
	if s, err := newSentry(gitDir, repo.Branches); err != nil {
		logger.Printf("%v; commits land up to %v later", err, pollTime)
	} else {
		act.hints, act.close, arm = s.hints, s.close, s.arm
	}
	var told string
	act.look = func() map[core.BranchName]found {
		if err := arm(); err != nil && err.Error() != told {
			told = err.Error()
			logger.Print(told)
		}
		tips := map[core.BranchName]found{}
		for _, b := range repo.Branches {
			tip, err := readTip(gitDir, b)
			tips[b] = found{tip, err}
		}
		return tips
	}
	return newWatcher(repo, act)
}

func newWatcher(repo Repo, act effects) *Watcher {
	w := &Watcher{repo: repo, act: act, queue: newQueue(repo.Branches), requests: make(chan request), ended: make(chan struct{})}
	w.queue.looked(time.Now(), act.look())
	w.publish()
	return w
}

// outcome is how a push ended.
type outcome struct {
	refusals map[core.BranchName]string
	err      error
}

// Run lands until ctx ends, and returns when nothing of it runs any more.
func (w *Watcher) Run(ctx context.Context) {
	defer close(w.ended)
	defer w.act.close()
	q := w.queue
	poll := time.NewTicker(pollTime)
	defer poll.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	results := make(chan outcome, 1)
	var waiters []waiter
	for ctx.Err() == nil {
		now := time.Now()
		if q.lookDue(now) {
			q.looked(now, w.act.look())
		}
		if updates := q.next(now); updates != nil {
			held := q.held()
			go func() {
				refusals, err := w.act.push(ctx, updates, held)
				results <- outcome{refusals, err}
			}()
		}
		w.publish()
		waiters = w.answer(waiters, now)
		if at, due := q.wake(); due {
			timer.Reset(at.Sub(now))
		}
		select {
		case <-ctx.Done():
		case <-w.act.hints:
			q.hint()
		case <-poll.C:
			q.hint()
		case <-timer.C:
		case r := <-results:
			q.done(time.Now(), r.refusals, r.err)
		case r := <-w.requests:
			waiters = append(waiters, waiter{q.urge(), r.answer})
		}
	}
	if q.inFlight != nil {
		<-results // ctx ends the push
	}
}

// answer replies to those whose landing was tried, or needed nothing.
func (w *Watcher) answer(waiters []waiter, now time.Time) []waiter {
	var rest []waiter
	for _, one := range waiters {
		if w.queue.settled(now) || w.queue.finished >= one.after {
			one.answer <- w.Status()
		} else {
			rest = append(rest, one)
		}
	}
	return rest
}

func (w *Watcher) publish() {
	states := w.queue.states(w.repo)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states = states
}

// Status is where the repository's branches stand.
func (w *Watcher) Status() []State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.states
}

var errEnded = errors.New("the landing watcher has ended")

// Land hands in now what has not landed, refused tips too, and returns where
// that led. It fails only when ctx or the watcher ends first.
func (w *Watcher) Land(ctx context.Context) ([]State, error) {
	answer := make(chan []State, 1)
	select {
	case w.requests <- request{answer}:
	case <-w.ended:
		return w.Status(), errEnded
	case <-ctx.Done():
		return w.Status(), ctx.Err()
	}
	select {
	case states := <-answer:
		return states, nil
	case <-w.ended:
		return w.Status(), errEnded
	case <-ctx.Done():
		return w.Status(), ctx.Err()
	}
}
