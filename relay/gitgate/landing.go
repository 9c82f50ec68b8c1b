package gitgate

import (
	"context"
	"fmt"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
)

// Land implements relay.Gate. On the box's own branch a rewrite lands too; the
// tip that it replaces stays in the gate. Every other branch moves forward only.
func (g *gate) Land(ctx context.Context, branch core.BranchName, tip core.ObjectID) (wire.Landing, error) {
	end, err := g.begin(ctx)
	if err != nil {
		return wire.Landing{}, err
	}
	defer end()
	l, err := g.land(ctx, branch, tip)
	if err != nil {
		return l, fmt.Errorf("land %s on %s: %w", tip.Short(), branch, err)
	}
	return l, nil
}

func (g *gate) land(ctx context.Context, branch core.BranchName, tip core.ObjectID) (wire.Landing, error) {
	l := wire.Landing{Branch: branch, New: tip}
	findings, err := g.inspect(ctx, tip)
	if err != nil {
		return l, err
	}
	if len(findings) > 0 {
		l.Status, l.Detail = wire.LandedHeld, "the commits hold "+findings[0].Rule
		return l, g.place(ctx, l, "")
	}
	user, err := g.user()
	if err != nil {
		return l, err
	}
	current, checkedOut, err := g.userBranch(ctx, user, branch)
	if err != nil {
		return l, err
	}
	landed, err := g.resolve(ctx, refHeads+string(branch))
	if err != nil {
		return l, err
	}
	l.Old = current
	if l.Status, l.Detail, err = g.judge(ctx, branch, tip, current, landed, checkedOut); err != nil {
		return l, err
	}
	if l.Status == wire.Landed || l.Status == wire.LandedRewritten {
		if err := g.move(ctx, user, &l); err != nil {
			return l, err
		}
	}
	return l, g.place(ctx, l, landed)
}

// judge decides what becomes of a hand-in, from where the user's branch is and
// where the last landing left it.
func (g *gate) judge(ctx context.Context, branch core.BranchName, tip, current, landed core.ObjectID, checkedOut bool) (status, detail string, err error) {
	switch {
	case current == tip:
		return wire.LandedUpToDate, "", nil
	case checkedOut:
		return wire.LandedCheckedOut, "the user has the branch checked out", nil
	case current == "" && tip == g.repo.BaseOID && (landed == "" || landed == tip):
		return wire.LandedUpToDate, "the box has no commit of its own yet", nil // and makes no branch
	case current == "":
		return wire.Landed, "", nil // new, or the user has deleted it
	}
	forward, err := g.h.isAncestor(ctx, g.in(), current, tip)
	switch {
	case err != nil:
		return "", "", err
	case forward:
		return wire.Landed, "", nil
	case current != landed:
		return wire.LandedDiverged, "the user has moved the branch to " + current.Short(), nil
	case branch != g.repo.Branch:
		return wire.LandedDiverged, "not a fast-forward of " + current.Short(), nil
	}
	return wire.LandedRewritten, "the old tip " + current.Short() + " is kept", nil
}

// move lands in the user's repository, and settles what only git could see.
func (g *gate) move(ctx context.Context, user *Repository, l *wire.Landing) error {
	u := policy.RefUpdate{Ref: l.Branch.Ref(), Old: l.Old, New: l.New}
	reason, err := g.deliver(ctx, user, u)
	switch {
	case err != nil:
		return err
	case reason == "":
		return nil
	case strings.Contains(reason, "branch is currently checked out"):
		l.Status, l.Detail = wire.LandedCheckedOut, "the user has the branch checked out"
		return nil
	}
	current, _, err := g.userBranch(ctx, user, l.Branch)
	if err != nil {
		return err
	}
	if current != l.Old {
		l.Status, l.Detail = wire.LandedDiverged, "the user moved the branch at this moment"
		return nil
	}
	return fmt.Errorf("git refuses the branch: %s", core.Untrusted(reason).Quote())
}

// userBranch is where the user's branch is, and whether a work tree has it
// checked out.
func (g *gate) userBranch(ctx context.Context, user *Repository, branch core.BranchName) (id core.ObjectID, checkedOut bool, err error) {
	out, err := g.h.run.line(ctx, g.h.theirs(user, "for-each-ref", "--format=%(objectname) %(worktreepath)", branch.Ref()))
	if err != nil || out == "" {
		return "", false, err
	}
	// A pattern also matches what lies below it.
	first, _, _ := strings.Cut(out, "\n")
	oid, tree, _ := strings.Cut(first, " ")
	if id, err = core.ParseObjectID(oid); err != nil {
		return "", false, err
	}
	return id, tree != "", nil
}

// resolve reads a ref of the gate, "" if it does not exist.
func (g *gate) resolve(ctx context.Context, name string) (core.ObjectID, error) {
	refs, err := g.h.storedRefs(ctx, g.dir, name)
	for _, r := range refs {
		if r.name == name {
			return r.oid, nil
		}
	}
	return "", err
}

// place books the outcome in the gate: what has landed is a head, what has not
// is kept, and the import ref has served.
func (g *gate) place(ctx context.Context, l wire.Landing, landed core.ObjectID) error {
	refs, err := g.h.storedRefs(ctx, g.dir, refKept+string(l.Branch), refOld, refImport)
	if err != nil {
		return err
	}
	var changes []change
	var old []ref
	for _, r := range refs {
		switch {
		case strings.HasPrefix(r.name, refImport) && r.oid == l.New:
			changes = append(changes, change{ref: r.name, old: r.oid})
		case strings.HasPrefix(r.name, refOld):
			old = append(old, r)
		}
	}
	switch l.Status {
	case wire.Landed, wire.LandedUpToDate, wire.LandedRewritten:
		changes = append(changes, change{refHeads + string(l.Branch), l.New, anyValue})
		for _, r := range refs {
			if r.name == refKept+string(l.Branch) {
				changes = append(changes, change{ref: r.name, old: r.oid})
			}
		}
	default:
		changes = append(changes, change{refKept + string(l.Branch), l.New, anyValue})
	}
	if l.Status == wire.LandedRewritten {
		next := 1
		if len(old) > 0 {
			next = number(old[len(old)-1].name) + 1
		}
		changes = append(changes, change{numbered(refOld, next), landed, ""})
		for _, r := range old[:max(0, len(old)+1-oldLimit)] {
			changes = append(changes, change{ref: r.name, old: r.oid})
		}
	}
	return g.h.moveRefs(ctx, g.h.ours(g.dir), g.repo.ObjectFormat, changes)
}
