package landing

import (
	"slices"
	"time"

	"github.com/madarco/agentbox/core"
)

const (
	// quiet is the least time between two looks at the refs: the first change
	// is seen at once, those that follow on its heels together.
	quiet = 50 * time.Millisecond
	// The wait after a push that failed on the way doubles from first to last.
	firstRetry, lastRetry = time.Second, 30 * time.Second
)

// update is one branch to hand in.
type update struct {
	branch core.BranchName
	oid    core.ObjectID
	landed core.ObjectID // the last that was taken, if any
}

// queue decides when the refs are looked at and what is pushed when. It is
// pure: time, tips and outcomes come in, and its owner acts.
type queue struct {
	branches []*branch
	dirty    bool      // something may have moved since the last look
	lookAt   time.Time // not before
	pushAt   time.Time // not before, after failures
	failures int
	inFlight []update
	started  int // pushes
	finished int
}

type branch struct {
	name                 core.BranchName
	tip, landed, refused core.ObjectID
	problem              string // of the last push
	unreadable           string // at the last look
}

func newQueue(names []core.BranchName) *queue {
	q := &queue{dirty: true}
	for _, name := range names {
		q.branches = append(q.branches, &branch{name: name})
	}
	return q
}

// hint says that something may have moved.
func (q *queue) hint() { q.dirty = true }

// urge says that a person wants everything handed in now. It returns the
// number of the push after which that was tried.
func (q *queue) urge() int {
	q.dirty, q.lookAt, q.pushAt, q.failures = true, time.Time{}, time.Time{}, 0
	for _, b := range q.branches {
		b.refused = ""
	}
	return q.started + 1
}

func (q *queue) lookDue(now time.Time) bool { return q.dirty && !now.Before(q.lookAt) }

// found is what a look at one branch gave.
type found struct {
	tip core.ObjectID
	err error
}

// looked takes what a look at the refs has found. A new tip ends the wait
// after a failure; one that could not be read stays what it was.
func (q *queue) looked(now time.Time, tips map[core.BranchName]found) {
	q.dirty, q.lookAt = false, now.Add(quiet)
	for _, b := range q.branches {
		switch look := tips[b.name]; {
		case look.err != nil:
			b.unreadable = look.err.Error()
		case look.tip != b.tip:
			b.tip, b.problem, b.unreadable = look.tip, "", ""
			q.pushAt, q.failures = time.Time{}, 0
		default:
			b.unreadable = ""
		}
	}
}

func (b *branch) waits() bool { return b.tip != "" && b.tip != b.landed && b.tip != b.refused }

func (q *queue) waits() bool { return slices.ContainsFunc(q.branches, (*branch).waits) }

// next is what to push now, nothing while a push is under way.
func (q *queue) next(now time.Time) []update {
	if q.inFlight != nil || now.Before(q.pushAt) || !q.waits() {
		return nil
	}
	for _, b := range q.branches {
		if b.waits() {
			q.inFlight = append(q.inFlight, update{b.name, b.tip, b.landed})
		}
	}
	q.started++
	return q.inFlight
}

// held are the commits that the relay has taken.
func (q *queue) held() []core.ObjectID {
	var held []core.ObjectID
	for _, b := range q.branches {
		if b.landed != "" {
			held = append(held, b.landed)
		}
	}
	return held
}

// done takes the outcome of the push that next began: refusals by branch, or
// an error when it failed as a whole.
func (q *queue) done(now time.Time, refusals map[core.BranchName]string, err error) {
	pushed := q.inFlight
	q.inFlight = nil
	q.finished++
	for _, u := range pushed {
		b := q.branches[slices.IndexFunc(q.branches, func(b *branch) bool { return b.name == u.branch })]
		reason, refused := refusals[u.branch]
		switch {
		case err != nil:
			b.problem = err.Error()
		case refused:
			b.refused, b.problem = u.oid, reason
		default:
			b.landed, b.refused, b.problem = u.oid, "", ""
		}
	}
	if err == nil {
		q.failures = 0
		return
	}
	q.pushAt = now.Add(min(firstRetry<<min(q.failures, 10), lastRetry))
	q.failures++
}

// settled tells that nothing is left to do now; a retry may be due later.
func (q *queue) settled(now time.Time) bool {
	return !q.dirty && q.inFlight == nil && (!q.waits() || now.Before(q.pushAt))
}

// wake is when something is due next, if no event comes first.
func (q *queue) wake() (time.Time, bool) {
	switch {
	case q.dirty:
		return q.lookAt, true
	case q.inFlight == nil && q.waits():
		return q.pushAt, true
	}
	return time.Time{}, false
}
