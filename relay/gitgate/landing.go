package gitgate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
)

// Land implements relay.Gate. On the box's own branch a rewrite lands too; the
// tip that it replaces stays in the gate. Every other branch moves forward only,
// unless a person has agreed to more.
func (g *gate) Land(ctx context.Context, r relay.LandRequest) (wire.Landing, error) {
	end, err := g.begin(ctx)
	if err != nil {
		return wire.Landing{}, err
	}
	defer end()
	l, err := g.land(ctx, r)
	if err != nil {
		return l, fmt.Errorf("land %s on %s: %w", r.Tip.Short(), r.Branch, err)
	}
	return l, nil
}

// Look implements relay.Gate.
func (g *gate) Look(ctx context.Context, branch core.BranchName, tip core.ObjectID) (wire.Landing, error) {
	user, err := g.user()
	if err != nil {
		return wire.Landing{}, err
	}
	l, _, err := g.judge(ctx, user, relay.LandRequest{Branch: branch, Tip: tip})
	if err != nil {
		return l, fmt.Errorf("look at %s for %s: %w", tip.Short(), branch, err)
	}
	return l, nil
}

// Kept implements relay.Gate.
func (g *gate) Kept(ctx context.Context) ([]wire.Landing, error) {
	refs, err := g.h.storedRefs(ctx, g.dir, refKept, refHeads)
	if err != nil {
		return nil, fmt.Errorf("list what waits in the gate: %w", err)
	}
	landed := map[core.ObjectID]bool{} // on whatever branch
	for _, r := range refs {
		if strings.HasPrefix(r.name, refHeads) {
			landed[r.oid] = true
		}
	}
	var out []wire.Landing
	for _, r := range refs {
		name, kept := strings.CutPrefix(r.name, refKept)
		if !kept || landed[r.oid] {
			continue
		}
		l, err := g.Look(ctx, core.BranchName(name), r.oid)
		if err != nil {
			return nil, err
		}
		if l.Status != wire.LandedUpToDate {
			out = append(out, l)
		}
	}
	return out, nil
}

func (g *gate) land(ctx context.Context, r relay.LandRequest) (wire.Landing, error) {
	user, err := g.user()
	if err != nil {
		return wire.Landing{Branch: r.Branch, New: r.Tip}, err
	}
	var l wire.Landing
	var landed core.ObjectID
	for attempt := 0; ; attempt++ {
		if l, landed, err = g.judge(ctx, user, r); err != nil {
			return l, err
		}
		if !l.Moves() {
			break
		}
		err := g.move(ctx, user, &l)
		if err == nil {
			break
		}
		if ctx.Err() != nil || attempt == moveAttempts {
			return l, err // else git may find next time what somebody has just removed or locked
		}
		if err := rest(ctx, moveRest<<attempt); err != nil {
			return l, err
		}
	}
	if err := g.place(ctx, r, l, landed); err != nil {
		return l, err
	}
	if r.Agreed {
		g.h.surveys.forget(g.dir) // what stands on the tip holds less now
	}
	return l, nil
}

// The user's own git may hold a lock on their refs for a moment. Git waits for
// a lock itself, a tenth of a second or a second by the kind of it.
const (
	moveAttempts = 4
	moveRest     = 100 * time.Millisecond // doubles
)

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// judge decides what becomes of a tip, from where the user's branch is and
// where the last landing left it, which it returns too.
func (g *gate) judge(ctx context.Context, user *Repository, r relay.LandRequest) (l wire.Landing, landed core.ObjectID, err error) {
	l = wire.Landing{Branch: r.Branch, New: r.Tip}
	var checkedOut bool
	if l.Old, checkedOut, err = g.userBranch(ctx, user, r.Branch); err != nil {
		return l, "", err
	}
	if landed, err = g.resolve(ctx, refHeads+string(r.Branch)); err != nil {
		return l, "", err
	}
	if !r.Agreed {
		s, err := g.inspect(ctx, r.Tip)
		if err != nil {
			return l, landed, err
		}
		if len(s.findings) > 0 {
			l.Status, l.Detail = wire.LandedHeld, "the commits hold "+s.findings[0].Rule
			return l, landed, nil
		}
	}
	l.Status, l.Detail, err = g.weigh(ctx, user, r, standing{l.Old, landed, checkedOut})
	return l, landed, err
}

// standing is where a branch is.
type standing struct {
	current    core.ObjectID // in the user's repository, "" if it is not there
	landed     core.ObjectID // by the last landing, "" if there was none
	checkedOut bool
}

func (g *gate) weigh(ctx context.Context, user *Repository, r relay.LandRequest, at standing) (status, detail string, err error) {
	mine := at.current == at.landed // nobody but us has moved it
	switch {
	case at.current == r.Tip:
		return wire.LandedUpToDate, "", nil
	case at.current == "" && r.Tip == g.repo.BaseOID && (mine || at.landed == r.Tip):
		return wire.LandedUpToDate, "the box has no commit of its own yet", nil // and makes no branch
	case at.current == "" && !r.Agreed:
		return wire.Landed, "", nil // new, or the user has deleted it
	}
	if !mine && !r.Agreed && at.current != "" {
		if has, err := g.h.isAncestor(ctx, g.h.theirs(user), r.Tip, at.current); err != nil || has {
			return wire.LandedUpToDate, "the user's branch holds it", err
		}
	}
	switch {
	case at.checkedOut:
		return wire.LandedCheckedOut, "the user has the branch checked out", nil
	case r.Agreed && at.current != r.Old:
		return wire.LandedDiverged, "the branch is no longer where it was when the user was asked", nil
	case at.current == "":
		return wire.Landed, "", nil
	}
	forward, err := g.h.isAncestor(ctx, g.in(), at.current, r.Tip)
	undone := false
	if err == nil && forward && !mine && !r.Agreed {
		undone, err = g.undone(ctx, at, r.Tip)
	}
	switch {
	case err != nil:
		return "", "", err
	case forward && !undone:
		return wire.Landed, "", nil
	case r.Agreed:
	case !mine:
		return wire.LandedDiverged, "the user has moved the branch to " + at.current.Short(), nil
	case r.Branch != g.repo.Branch:
		return wire.LandedDiverged, "not a fast-forward of " + at.current.Short(), nil
	}
	where := "in the gate"
	if !mine {
		where = "in the reflog of the branch"
	}
	return wire.LandedRewritten, "the old tip " + at.current.Short() + " is kept " + where, nil
}

// undone tells whether the user has taken back what had landed and tip would
// bring it again: a fast-forward to git, and not what the user decided.
func (g *gate) undone(ctx context.Context, at standing, tip core.ObjectID) (bool, error) {
	if at.landed == "" {
		return false, nil
	}
	if has, err := g.h.isAncestor(ctx, g.in(), at.landed, at.current); err != nil || has {
		return false, err
	}
	return g.h.isAncestor(ctx, g.in(), at.landed, tip)
}

// move lands in the user's repository, and settles what only git could see. The
// error wraps relay.ErrBusy where another git holds a lock.
func (g *gate) move(ctx context.Context, user *Repository, l *wire.Landing) error {
	u := policy.RefUpdate{Ref: l.Branch.Ref(), Old: l.Old, New: l.New}
	reason, err := g.deliver(ctx, user, u)
	switch {
	case err != nil && locked(err.Error()):
		return fmt.Errorf("%w: %w", relay.ErrBusy, err)
	case err != nil:
		return err
	case reason == "":
		return g.secure(ctx, user, u)
	case strings.Contains(reason, "branch is currently checked out"):
		l.Status, l.Detail = wire.LandedCheckedOut, "the user has the branch checked out"
		return nil
	}
	current, _, err := g.userBranch(ctx, user, l.Branch)
	if err != nil {
		return err
	}
	if current != l.Old {
		return fmt.Errorf("%w: the user moved the branch at this moment", relay.ErrBusy)
	}
	refused := fmt.Errorf("git refuses the branch: %s", core.Untrusted(reason).Quote())
	if locked(reason) {
		return fmt.Errorf("%w: %w", relay.ErrBusy, refused)
	}
	return refused
}

// locked tells whether git's words are about a lock that another git holds.
func locked(words string) bool {
	return strings.Contains(words, "cannot lock ref") || strings.Contains(words, ".lock': File exists") ||
		strings.Contains(words, "failed to update ref")
}

// userBranch is where the user's branch is, and whether a work tree has it
// checked out.
func (g *gate) userBranch(ctx context.Context, user *Repository, branch core.BranchName) (id core.ObjectID, checkedOut bool, err error) {
	out, err := g.h.run.line(ctx, g.h.theirs(user, "for-each-ref", "--format=%(objectname) %(refname) %(worktreepath)", branch.Ref()))
	if err != nil {
		return "", false, err
	}
	// A pattern also matches what lies below it, and the branch itself sorts first.
	first, _, _ := strings.Cut(out, "\n")
	oid, rest, _ := strings.Cut(first, " ")
	name, tree, _ := strings.Cut(rest, " ")
	if name != branch.Ref() {
		return "", false, nil
	}
	if id, err = core.ParseObjectID(oid); err != nil {
		return "", false, err
	}
	if tree != "" {
		return id, true, nil
	}
	busy, err := rebasing(user, branch)
	return id, busy, err
}
