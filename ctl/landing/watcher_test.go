package landing

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/madarco/agentbox/core"
)

// outside is a repository and a relay in memory, on a bubble's clock.
type outside struct {
	hints chan struct{}

	mu      sync.Mutex
	tip     int
	took    time.Duration
	fail    error
	pushed  []int
	looks   int
	current int // pushes under way
}

func (o *outside) commit() {
	o.mu.Lock()
	o.tip++
	o.mu.Unlock()
	select {
	case o.hints <- struct{}{}:
	default:
	}
}

func (o *outside) set(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

func (o *outside) effects(t *testing.T) effects {
	return effects{
		hints: o.hints,
		look: func() map[core.BranchName]found {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.looks++
			return tip(o.tip)
		},
		push: func(ctx context.Context, updates []update, _ []core.ObjectID) (map[core.BranchName]string, error) {
			o.mu.Lock()
			if o.current++; o.current != 1 {
				t.Error("two pushes at once")
			}
			took, fail := o.took, o.fail
			o.mu.Unlock()
			select {
			case <-time.After(took):
			case <-ctx.Done():
				fail = ctx.Err()
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			o.current--
			if fail == nil {
				for n := range o.tip + 1 {
					if oid(n) == updates[0].oid {
						o.pushed = append(o.pushed, n)
					}
				}
			}
			return nil, fail
		},
		close: func() {},
	}
}

// elapse lets time pass on the bubble's clock, and all that is due then happen.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func run(t *testing.T, test func(t *testing.T, o *outside, w *Watcher)) {
	synctest.Test(t, func(t *testing.T) {
		o := &outside{hints: make(chan struct{}, 1), tip: 1, took: 20 * time.Millisecond}
		w := newWatcher(Repo{Branches: []core.BranchName{branchName}}, o.effects(t))
		ctx, cancel := context.WithCancel(t.Context())
		go w.Run(ctx)
		test(t, o, w)
		cancel()
		<-w.ended
	})
}

func TestABurstOfCommitsBecomesFewPushesAndTheLastTipLands(t *testing.T) {
	run(t, func(t *testing.T, o *outside, w *Watcher) {
		for range 50 {
			o.commit()
			elapse(5 * time.Millisecond)
		}
		elapse(time.Second)
		if n := len(o.pushed); n > 10 || o.pushed[n-1] != o.tip {
			t.Errorf("%d pushes %v for 50 commits, last tip %d", n, o.pushed, o.tip)
		}
		if s := w.Status()[0]; s.Phase != Landed || s.Landed != oid(o.tip) {
			t.Errorf("status = %+v", s)
		}
	})
}

func TestACommitIsPushedWithoutAnyWait(t *testing.T) {
	run(t, func(t *testing.T, o *outside, w *Watcher) {
		elapse(time.Minute)
		before := time.Now()
		o.commit()
		states, err := w.Land(t.Context())
		if err != nil || states[0].Landed != oid(o.tip) {
			t.Errorf("Land = %+v, %v", states, err)
		}
		if took := time.Since(before); took != o.took {
			t.Errorf("landed after %v, want the push's own %v", took, o.took)
		}
	})
}

func TestAMissedEventIsCaughtByThePoll(t *testing.T) {
	run(t, func(t *testing.T, o *outside, w *Watcher) {
		elapse(time.Minute)
		o.set(func() { o.tip = 7 })
		elapse(pollTime + o.took + time.Millisecond)
		if s := w.Status()[0]; s.Landed != oid(7) {
			t.Errorf("status = %+v", s)
		}
	})
}

func TestIdleCostsOneLookAPoll(t *testing.T) {
	run(t, func(t *testing.T, o *outside, w *Watcher) {
		elapse(time.Second)
		var before, after int
		o.set(func() { before = o.looks })
		elapse(time.Hour)
		o.set(func() { after = o.looks })
		if got, want := after-before, int(time.Hour/pollTime); got != want {
			t.Errorf("%d looks in an hour, want %d", got, want)
		}
	})
}

func TestTheRelaysReturnIsNoticedWithoutACommit(t *testing.T) {
	run(t, func(t *testing.T, o *outside, w *Watcher) {
		o.set(func() { o.fail = errors.New("no relay") })
		o.commit()
		elapse(10 * time.Minute)
		if s := w.Status()[0]; s.Phase != Pending || s.Problem != "no relay" {
			t.Errorf("status = %+v", s)
		}
		o.set(func() { o.fail = nil })
		elapse(lastRetry + time.Second)
		if s := w.Status()[0]; s.Phase != Landed || s.Landed != oid(o.tip) {
			t.Errorf("status = %+v", s)
		}
	})
}

func TestLandAnswersWhenTheRelayIsDeadAndWhenCommitsNeverEnd(t *testing.T) {
	run(t, func(t *testing.T, o *outside, w *Watcher) {
		o.set(func() { o.fail = errors.New("no relay") })
		o.commit()
		states, err := w.Land(t.Context())
		if err != nil || states[0].Phase != Pending {
			t.Errorf("dead relay: Land = %+v, %v", states, err)
		}
		o.set(func() { o.fail = nil })
		ctx, stop := context.WithCancel(t.Context())
		committed := make(chan struct{})
		go func() {
			defer close(committed)
			for ctx.Err() == nil {
				o.commit()
				<-time.After(time.Millisecond)
			}
		}()
		elapse(time.Second)
		var want core.ObjectID
		o.set(func() { want = oid(o.tip) })
		states, err = w.Land(t.Context())
		stop()
		<-committed
		if err != nil || states[0].Landed < want {
			t.Errorf("endless commits: Land = %+v, %v; want %s or later", states, err, want)
		}
	})
}

func TestLandOfAnEndedWatcherFails(t *testing.T) {
	run(t, func(t *testing.T, o *outside, w *Watcher) {
		ctx, cancel := context.WithCancel(t.Context())
		other := newWatcher(Repo{}, o.effects(t))
		go other.Run(ctx)
		cancel()
		<-other.ended
		if _, err := other.Land(t.Context()); !errors.Is(err, errEnded) {
			t.Errorf("Land = %v", err)
		}
	})
}
