package landing

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/madarco/agentbox/core"
)

const branchName core.BranchName = "agentbox/b"

func oid(n int) core.ObjectID { return core.ObjectID(fmt.Sprintf("%040x", n)) }

func at(ms int) time.Time { return time.UnixMilli(int64(ms)) }

func tip(n int) map[core.BranchName]found {
	return map[core.BranchName]found{branchName: {tip: oid(n)}}
}

// looked lets a look that is due find tip n.
func looked(t *testing.T, q *queue, ms, n int) {
	t.Helper()
	if !q.lookDue(at(ms)) {
		t.Fatalf("no look is due at %d ms", ms)
	}
	q.looked(at(ms), tip(n))
}

// pushes wants a push of tip n, or none when n is 0.
func pushes(t *testing.T, q *queue, ms, n int) {
	t.Helper()
	got := q.next(at(ms))
	if n == 0 && got != nil || n != 0 && (len(got) != 1 || got[0].oid != oid(n)) {
		t.Fatalf("at %d ms it pushes %v, want tip %d", ms, got, n)
	}
}

func TestTheFirstChangeIsSeenAtOnceAndItsFollowersTogether(t *testing.T) {
	q := newQueue([]core.BranchName{branchName})
	looked(t, q, 0, 1)
	pushes(t, q, 0, 1)
	q.done(at(10), nil, nil)
	for ms := 11; ms < 50; ms++ {
		q.hint()
		if q.lookDue(at(ms)) {
			t.Fatalf("a look is due %d ms after the last", ms)
		}
	}
	looked(t, q, 50, 9)
	pushes(t, q, 50, 9)
}

func TestOnePushAtATimeAndTheNextCarriesTheNewestTip(t *testing.T) {
	q := newQueue([]core.BranchName{branchName})
	looked(t, q, 0, 1)
	pushes(t, q, 0, 1)
	for n := 2; n < 9; n++ {
		q.hint()
		looked(t, q, 100*n, n)
		pushes(t, q, 100*n, 0)
	}
	q.done(at(1000), nil, nil)
	pushes(t, q, 1000, 8)
	q.done(at(1001), nil, nil)
	pushes(t, q, 1001, 0)
	if got := q.phase(q.branches[0]); got != Landed {
		t.Errorf("phase = %s", got)
	}
}

func TestAFailureIsRetriedWithGrowingWaitsAndANewTipAtOnce(t *testing.T) {
	q := newQueue([]core.BranchName{branchName})
	looked(t, q, 0, 1)
	ms := 0
	for _, wait := range []int{1000, 2000, 4000, 8000, 16000, 30000, 30000} {
		pushes(t, q, ms, 1)
		q.done(at(ms), nil, errors.New("no relay"))
		pushes(t, q, ms+wait-1, 0)
		if due, ok := q.wake(); !ok || !due.Equal(at(ms+wait)) {
			t.Fatalf("wakes at %v, want %v", due, at(ms+wait))
		}
		ms += wait
	}
	pushes(t, q, ms, 1)
	q.done(at(ms), nil, errors.New("no relay"))
	q.hint()
	looked(t, q, ms+60, 2)
	pushes(t, q, ms+60, 2)
}

func TestARefusedTipIsNotSentAgainUntilItMovesOrSomebodyAsks(t *testing.T) {
	q := newQueue([]core.BranchName{branchName})
	looked(t, q, 0, 1)
	pushes(t, q, 0, 1)
	q.done(at(1), map[core.BranchName]string{branchName: "held"}, nil)
	pushes(t, q, 100000, 0)
	if s := q.states(Repo{})[0]; s.Phase != Refused || s.Problem != "held" || s.Landed != "" {
		t.Errorf("state = %+v", s)
	}
	q.urge()
	looked(t, q, 100000, 1)
	pushes(t, q, 100000, 1)
	q.done(at(100001), map[core.BranchName]string{branchName: "held"}, nil)
	q.hint()
	looked(t, q, 200000, 2)
	pushes(t, q, 200000, 2)
	q.done(at(200001), nil, nil)
	if s := q.states(Repo{})[0]; s.Phase != Landed || s.Problem != "" || s.Landed != oid(2) {
		t.Errorf("state = %+v", s)
	}
}

func TestABranchWithoutCommitsAndOneThatCannotBeReadAreLeftAlone(t *testing.T) {
	q := newQueue([]core.BranchName{branchName})
	q.looked(at(0), map[core.BranchName]found{branchName: {}})
	pushes(t, q, 0, 0)
	if !q.settled(at(0)) || q.states(Repo{})[0].Phase != Unborn {
		t.Error("an unborn branch is waited for")
	}
	q.looked(at(100), tip(1))
	pushes(t, q, 100, 1)
	q.done(at(101), nil, nil)
	q.looked(at(200), map[core.BranchName]found{branchName: {err: errors.New("torn")}})
	pushes(t, q, 200, 0)
	if s := q.states(Repo{})[0]; s.Phase != Landed || s.Problem != "torn" {
		t.Errorf("state = %+v", s)
	}
}

func TestBranchesGoInOnePushAndAreAnsweredOneByOne(t *testing.T) {
	q := newQueue([]core.BranchName{"a", "b"})
	q.looked(at(0), map[core.BranchName]found{"a": {tip: oid(1)}, "b": {tip: oid(2)}})
	if got := q.next(at(0)); len(got) != 2 {
		t.Fatalf("pushes %v", got)
	}
	q.done(at(1), map[core.BranchName]string{"b": "diverged"}, nil)
	states := q.states(Repo{})
	if states[0].Phase != Landed || states[1].Phase != Refused {
		t.Errorf("states = %+v", states)
	}
}

// TestManyMovesAreFewPushes: fifty commits on the branch, five milliseconds
// apart, while a push takes as long as one does.
func TestManyMovesAreFewPushes(t *testing.T) {
	q := newQueue([]core.BranchName{branchName})
	q.looked(at(0), tip(1))
	q.done(at(1), nil, q.firstPush(t))
	const push = 150
	pushes, ends, last := 0, 0, 0
	for ms := 100; ms < 1000; ms++ {
		n := 2 + min((ms-100)/5, 49)
		if last != n {
			last = n
			q.hint()
		}
		if ends == ms {
			q.done(at(ms), nil, nil)
		}
		if q.lookDue(at(ms)) {
			q.looked(at(ms), tip(n))
		}
		if q.next(at(ms)) != nil {
			pushes++
			ends = ms + push
		}
	}
	if pushes > 3 || q.waits() || q.branches[0].landed != oid(51) {
		t.Errorf("%d pushes, landed %s", pushes, q.branches[0].landed)
	}
}

func (q *queue) firstPush(t *testing.T) error {
	t.Helper()
	if q.next(at(0)) == nil {
		t.Fatal("the first tip is not pushed")
	}
	return nil
}
