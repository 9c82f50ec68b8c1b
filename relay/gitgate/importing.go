package gitgate

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
)

// Import implements relay.Gate. The objects stay in quarantine until git's own
// checks, the check that nothing is missing and the tree check have passed them.
func (g *gate) Import(ctx context.Context, pack io.Reader, updates []policy.RefUpdate) error {
	if err := g.full(); err != nil {
		return err
	}
	settings := g.prefetch(ctx, updates)
	defer settings()
	q, err := g.stage(ctx, pack)
	if err != nil {
		return err
	}
	defer q.remove() //nolint:errcheck // what is left goes when the gate is next opened
	end, err := g.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return g.admit(ctx, q, updates)
}

// admit takes what is staged into the gate, if all that is new in it is whole.
func (g *gate) admit(ctx context.Context, q *quarantine, updates []policy.RefUpdate) error {
	have, err := g.h.storedRefs(ctx, g.dir)
	if err != nil {
		return err
	}
	fresh, keep := nextImports(have, updates)
	for _, u := range fresh {
		if err := g.examine(ctx, q, u); err != nil {
			return err
		}
	}
	if len(fresh) > 0 {
		if err := q.release(); err != nil {
			return fmt.Errorf("take in the objects: %w", err)
		}
	}
	if err := g.h.setRefs(ctx, g.dir, g.repo.ObjectFormat, keep); err != nil {
		return err
	}
	return g.trimImports(ctx, have, len(keep))
}

// examine looks at one new commit in quarantine. For a push it finds out what
// will be asked next, too, beside what it has to wait for.
func (g *gate) examine(ctx context.Context, q *quarantine, u policy.RefUpdate) error {
	if err := g.mark(q, u.New); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var added added
	logged := make(chan error, 1)
	push := !isLanding(u.Ref)
	if push {
		go func() {
			var err error
			added, err = g.added(ctx, q.in, u)
			logged <- err
		}()
	}
	s, err := g.survey(ctx, q.in, u.New)
	if err != nil {
		cancel()
	}
	if push {
		if logErr := <-logged; err == nil {
			err = logErr
		}
	}
	if err != nil {
		return err
	}
	if err := g.markFiles(s.large); err != nil {
		return err
	}
	g.h.surveys.put(g.dir+"\x00"+string(u.New), s.kept())
	if !push {
		return nil
	}
	f, err := g.counts(ctx, q.in, u, added, s)
	if err == nil {
		g.h.facts.put(g.factsKey(u), f)
	}
	return err
}

func isLanding(ref string) bool { return strings.HasPrefix(ref, wire.LandingPrefix) }

// nextImports tells which updates bring a commit that no ref of the gate holds,
// and gives each commit that must be kept a ref of its own. A hand-in of what is
// held already needs none.
func nextImports(have []ref, updates []policy.RefUpdate) (fresh []policy.RefUpdate, keep []change) {
	imported, held, next := map[core.ObjectID]bool{}, map[core.ObjectID]bool{}, 0
	for _, r := range have {
		held[r.oid] = true
		if strings.HasPrefix(r.name, refImport) {
			imported[r.oid] = true
			next = max(next, number(r.name))
		}
	}
	for _, u := range updates {
		if u.New.IsZero() || imported[u.New] || held[u.New] && isLanding(u.Ref) {
			continue
		}
		if !held[u.New] {
			fresh = append(fresh, u)
		}
		imported[u.New] = true
		next++
		keep = append(keep, change{ref: numbered(refImport, next), new: u.New})
	}
	return fresh, keep
}

// numbered makes refs that sort by number.
func numbered(prefix string, n int) string { return fmt.Sprintf("%s%012d", prefix, n) }

func number(name string) int {
	n, _ := strconv.Atoi(name[strings.LastIndexByte(name, '/')+1:])
	return n
}

// trimImports drops the oldest of too many imports.
func (g *gate) trimImports(ctx context.Context, have []ref, more int) error {
	var older []ref
	for _, r := range have {
		if strings.HasPrefix(r.name, refImport) {
			older = append(older, r)
		}
	}
	var changes []change
	for _, r := range older[:max(0, min(len(older), len(older)+more-importLimit))] {
		changes = append(changes, change{ref: r.name, old: anyValue})
	}
	return g.h.moveRefs(ctx, g.h.ours(g.dir), g.repo.ObjectFormat, changes)
}
