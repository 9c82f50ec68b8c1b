package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/madarco/agentbox/core/wire"
)

type answer struct {
	env wire.Envelope
	err error
}

// pass lets false time go by, and what it wakes come to rest.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// park is a caller of a queue in its own goroutine.
func park(ctx context.Context, q *queue, id, method string) <-chan answer {
	got := make(chan answer, 1)
	go func() {
		env, err := q.do(ctx, boxID, wire.Request{RequestID: id, Method: method})
		got <- answer{env, err}
	}()
	synctest.Wait()
	return got
}

func ids(actions []Action) (all []string) {
	for _, a := range actions {
		all = append(all, a.RequestID)
	}
	return all
}

func wantTaken(t *testing.T, q *queue, want ...string) []Action {
	t.Helper()
	actions, _, _ := q.take()
	if !slices.Equal(ids(actions), want) {
		t.Fatalf("handed out %v; want %v", ids(actions), want)
	}
	return actions
}

func TestALeaseHidesAnActionUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{changed: &signal{}}
		got := park(t.Context(), q, "r", "m")
		a := wantTaken(t, q, "r")[0]
		wantTaken(t, q)
		pass(lease)
		if again := wantTaken(t, q, "r")[0]; again.ID != a.ID {
			t.Errorf("redelivered as %s; was %s", again.ID, a.ID)
		}
		pass(lease - time.Second)
		if w := q.heartbeat([]string{a.ID, "other"}); !slices.Equal(w, []string{a.ID}) {
			t.Errorf("wanted %v", w)
		}
		pass(lease - time.Second)
		wantTaken(t, q)
		if !q.resolve(a.ID, wire.Envelope{Stdout: "x"}) || q.resolve(a.ID, wire.Envelope{Stdout: "y"}) {
			t.Error("a result is taken once")
		}
		if g := <-got; g.err != nil || g.env.Stdout != "x" {
			t.Errorf("got %+v", g)
		}
	})
}

func TestARequestExpiresWithoutAnyPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{changed: &signal{}}
		begun := time.Now()
		if g := <-park(t.Context(), q, "r", "m"); g.err != nil || g.env.ExitCode != wire.ExitTimeout {
			t.Fatalf("got %+v", g)
		}
		if took := time.Since(begun); took != life {
			t.Errorf("told after %v; want %v", took, life)
		}
		wantTaken(t, q)
	})
}

func TestHeartbeatsKeepARequestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{changed: &signal{}}
		got := park(t.Context(), q, "r", "m")
		a := wantTaken(t, q, "r")[0]
		for range 6 {
			pass(life - time.Minute)
			q.heartbeat([]string{a.ID})
		}
		select {
		case g := <-got:
			t.Fatalf("answered with %+v", g)
		default:
		}
		q.resolve(a.ID, wire.Envelope{})
		<-got
	})
}

func TestNothingIsHandedOutAgainOnceTheHostMayHaveForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{changed: &signal{}}
		got := park(t.Context(), q, "r", "m")
		wantTaken(t, q, "r")
		pass(redeliverFor + time.Second)
		wantTaken(t, q)
		if g := <-got; g.env.ExitCode != wire.ExitTimeout {
			t.Errorf("got %+v", g)
		}
	})
}

func TestTheLastCallerTakesItsRequestAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{changed: &signal{}}
		one, leave := context.WithCancel(t.Context())
		two, leaveToo := context.WithCancel(t.Context())
		first, second := park(one, q, "r", "m"), park(two, q, "r", "m")
		a := wantTaken(t, q, "r")[0]
		leave()
		if g := <-first; !errors.Is(g.err, context.Canceled) {
			t.Fatalf("got %+v", g)
		}
		if w := q.heartbeat([]string{a.ID}); len(w) != 1 {
			t.Fatal("withdrawn though a caller waits")
		}
		leaveToo()
		<-second
		if _, cancelled, _ := q.take(); !slices.Equal(cancelled, []string{a.ID}) {
			t.Errorf("told of %v", cancelled)
		}
		if w := q.heartbeat([]string{a.ID}); len(w) != 0 {
			t.Error("still wanted")
		}
		if q.resolve(a.ID, wire.Envelope{}) {
			t.Error("a result was taken for nobody")
		}
	})
}

func TestRetriesJoinAndOtherRequestsConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{changed: &signal{}}
		first := park(t.Context(), q, "r", "m")
		a := wantTaken(t, q, "r")[0]
		q.resolve(a.ID, wire.Envelope{Stdout: "x"})
		<-first
		if g := <-park(t.Context(), q, "r", "m"); g.env.Stdout != "x" {
			t.Errorf("the retry got %+v", g)
		}
		if g := <-park(t.Context(), q, "r", "n"); !errors.Is(g.err, errConflict) {
			t.Errorf("another request of the id got %+v", g)
		}
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{changed: &signal{}}
		ctx, cancel := context.WithCancel(t.Context())
		var all []<-chan answer
		for i := range depth {
			all = append(all, park(ctx, q, fmt.Sprint(i), "m"))
		}
		if g := <-park(ctx, q, "", "m"); g.env.ExitCode != ExitFull {
			t.Errorf("got %+v", g)
		}
		cancel()
		for _, got := range all {
			<-got
		}
		if q.len() != 0 {
			t.Errorf("%d requests are left", q.len())
		}
	})
}

// The model: each request is pending until exactly one of result, withdrawal and
// expiry; only pending ones are handed out, never within a lease; each caller
// has exactly one end.
func TestTheQueueFollowsItsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 1<<16), 1, 120).Draw(rt, "steps")
		var wrong error
		synctest.Test(t, func(*testing.T) { wrong = newModel().run(steps) })
		if wrong != nil {
			rt.Fatal(wrong)
		}
	})
}

type caller struct {
	id     string // the action's, once handed out
	leave  context.CancelFunc
	got    <-chan answer
	due    time.Time // not handed out before
	dies   time.Time // told 124 then
	again  time.Time // not handed out again after
	handed bool
}

type model struct {
	q       *queue
	n       int
	callers map[string]*caller // pending, by request id
}

func newModel() *model { return &model{q: &queue{changed: &signal{}}, callers: map[string]*caller{}} }

func (m *model) run(steps []int) error {
	moves := []func(int) error{m.park, m.park, m.take, m.beat, m.resolve, m.leave, m.wait}
	var wrong error
	for _, step := range steps {
		if wrong = moves[step%len(moves)](step / len(moves)); wrong != nil {
			break
		}
	}
	for _, c := range m.callers {
		c.leave()
	}
	synctest.Wait()
	if wrong == nil && m.q.len() != 0 {
		wrong = fmt.Errorf("%d requests outlive their callers", m.q.len())
	}
	return wrong
}

// pick is the n-th pending request, nil when there is none.
func (m *model) pick(n int) (string, *caller) {
	names := slices.Sorted(maps.Keys(m.callers))
	if len(names) == 0 {
		return "", nil
	}
	name := names[n%len(names)]
	return name, m.callers[name]
}

func (m *model) park(int) error {
	m.n++
	name := fmt.Sprint("r", m.n)
	ctx, cancel := context.WithCancel(context.Background())
	got := park(ctx, m.q, name, "m")
	if len(m.callers) == depth {
		cancel()
		if g := <-got; g.env.ExitCode != ExitFull {
			return fmt.Errorf("over the bound: %+v", g)
		}
		return nil
	}
	m.callers[name] = &caller{leave: cancel, got: got, dies: time.Now().Add(life)}
	return nil
}

func (m *model) take(int) error {
	actions, _, _ := m.q.take()
	now, want := time.Now(), 0
	for _, c := range m.callers {
		if !now.Before(c.due) && (!c.handed || !now.After(c.again)) {
			want++
		}
	}
	if len(actions) != want {
		return fmt.Errorf("%d handed out; want %d", len(actions), want)
	}
	for _, a := range actions {
		c := m.callers[a.RequestID]
		if c == nil || now.Before(c.due) || c.id != "" && c.id != a.ID {
			return fmt.Errorf("handed out %+v; the model has %+v", a, c)
		}
		if !c.handed {
			c.again = now.Add(redeliverFor)
		}
		c.id, c.handed, c.due = a.ID, true, now.Add(lease)
	}
	return nil
}

func (m *model) beat(n int) error {
	_, c := m.pick(n)
	if c == nil || !c.handed {
		return nil
	}
	if len(m.q.heartbeat([]string{c.id})) != 1 {
		return errors.New("a pending request is not wanted")
	}
	now := time.Now()
	c.due, c.dies, c.again = now.Add(lease), now.Add(life), now.Add(redeliverFor)
	return nil
}

func (m *model) resolve(n int) error {
	name, c := m.pick(n)
	if c == nil || !c.handed {
		return nil
	}
	if !m.q.resolve(c.id, wire.Envelope{Stdout: name}) || m.q.resolve(c.id, wire.Envelope{}) {
		return errors.New("a pending request is answered once")
	}
	delete(m.callers, name)
	if g := <-c.got; g.err != nil || g.env.Stdout != name {
		return fmt.Errorf("the caller got %+v", g)
	}
	return nil
}

func (m *model) leave(n int) error {
	name, c := m.pick(n)
	if c == nil {
		return nil
	}
	c.leave()
	delete(m.callers, name)
	if g := <-c.got; !errors.Is(g.err, context.Canceled) {
		return fmt.Errorf("the caller got %+v", g)
	}
	synctest.Wait()
	return nil
}

func (m *model) wait(n int) error {
	<-time.After(time.Duration(n%400+1) * time.Second)
	synctest.Wait()
	for name, c := range m.callers {
		if time.Now().Before(c.dies) {
			continue
		}
		delete(m.callers, name)
		if g := <-c.got; g.env.ExitCode != wire.ExitTimeout {
			return fmt.Errorf("an expired caller got %+v", g)
		}
	}
	return nil
}
