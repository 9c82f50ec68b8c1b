package gitgate

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay"
)

// secureAttempts is how often what a user's gc removed is sent again.
const secureAttempts = 3

// secure makes sure that all of a commit is there once its branch holds it. A
// `git gc --prune=now` of the user's, which had looked at the branches before,
// may have taken some of it for garbage in between; git itself only warns of
// that. What comes the second time comes as a pack, which a gc does not prune.
func (g *gate) secure(ctx context.Context, user *Repository, u policy.RefUpdate) error {
	for range secureAttempts {
		whole, err := g.wholeThere(ctx, user, u)
		if err != nil || whole {
			return err
		}
		if err := g.resend(ctx, user, u); err != nil {
			return fmt.Errorf("send again what a gc has removed: %w", err)
		}
	}
	return fmt.Errorf("%w: it removes what has just come", relay.ErrBusy)
}

// wholeThere tells whether the user's repository has all that the commit adds to
// what its branch was at, or to the other branches where it is new.
func (g *gate) wholeThere(ctx context.Context, user *Repository, u policy.RefUpdate) (bool, error) {
	cmd := g.h.theirs(user, "rev-list", "--objects", "--quiet", "--missing=allow-promisor", string(u.New), "--not")
	if u.Old.IsZero() {
		cmd.args = append(cmd.args, "--exclude="+u.Ref, "--all")
	} else {
		cmd.args = append(cmd.args, string(u.Old))
	}
	cmd.config = append(slices.Clone(noExecution), thrift...)
	_, err := g.h.run.run(ctx, cmd)
	if exitCode(err) > 0 {
		return false, nil
	}
	return err == nil, err
}

// resend gives the user's repository all of a commit that its other refs don't
// hold.
func (g *gate) resend(ctx context.Context, user *Repository, u policy.RefUpdate) error {
	theirs, err := g.h.listRefs(ctx, g.h.theirs(user))
	if err != nil {
		return err
	}
	var have []core.ObjectID
	for _, r := range theirs {
		if r.name != u.Ref {
			have = append(have, r.oid)
		}
	}
	if have, err = g.h.existing(ctx, g.in(), have); err != nil {
		return err
	}
	p := packing{from: g.in(), want: []core.ObjectID{u.New}, exclude: have}
	return g.h.packTo(ctx, p, func(fresh io.Reader) error {
		take := g.h.theirs(user, "index-pack", "--stdin")
		take.config = append(slices.Clone(noExecution), thrift...)
		take.stdin, take.limits = fresh, &importBounds
		_, err := g.h.run.run(ctx, take)
		return err
	})
}
