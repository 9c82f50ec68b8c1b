package gitgate

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	have, err := g.bothHave(ctx, user, u.Ref)
	if err != nil {
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

// bothHave are the commits that refs of the user's hold, but the one named, and
// that the gate knows. It asks nothing of the objects: one of them may be the one
// that is missing.
func (g *gate) bothHave(ctx context.Context, user *Repository, but string) ([]core.ObjectID, error) {
	out, err := g.h.run.run(ctx, g.h.theirs(user, "for-each-ref", "--format=%(objectname) %(refname)"))
	if err != nil {
		return nil, err
	}
	var theirs []core.ObjectID
	for line := range strings.Lines(string(out)) {
		if id, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok && name != but {
			theirs = append(theirs, core.ObjectID(id))
		}
	}
	return g.h.existing(ctx, g.in(), theirs)
}

// collectsGarbage tells whether a gc of the user's runs. What comes as a pack is
// then safe, because git keeps a pack that it takes in until its ref holds it,
// while it removes objects that came one by one.
func collectsGarbage(user *Repository) bool {
	_, err := os.Lstat(filepath.Join(user.CommonDir, "gc.pid"))
	return err == nil
}
