package gitgate

import (
	"context"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
)

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
// is kept, and the import ref has served. A hand-in is the box's newest word, so
// when it lands nothing waits any more; what a person let through later may be
// older than what waits.
func (g *gate) place(ctx context.Context, r relay.LandRequest, l wire.Landing, landed core.ObjectID) error {
	refs, err := g.h.storedRefs(ctx, g.dir, refKept+string(l.Branch), refOld, refImport)
	if err != nil {
		return err
	}
	var changes []change
	var old []ref
	for _, have := range refs {
		switch {
		case strings.HasPrefix(have.name, refImport) && have.oid == l.New:
			changes = append(changes, change{ref: have.name, old: have.oid})
		case strings.HasPrefix(have.name, refOld):
			old = append(old, have)
		case have.name == refKept+string(l.Branch) && l.Here() && (!r.Agreed || have.oid == l.New):
			changes = append(changes, change{ref: have.name, old: have.oid})
		}
	}
	switch {
	case l.Here():
		changes = append(changes, change{refHeads + string(l.Branch), l.New, anyValue})
	case !r.Agreed:
		changes = append(changes, change{refKept + string(l.Branch), l.New, anyValue})
	}
	if l.Status == wire.LandedRewritten && landed != "" {
		next := 1
		if len(old) > 0 {
			next = number(old[len(old)-1].name) + 1
		}
		changes = append(changes, change{numbered(refOld, next), landed, ""})
		for _, first := range old[:max(0, len(old)+1-oldLimit)] {
			changes = append(changes, change{ref: first.name, old: first.oid})
		}
	}
	return g.h.moveRefs(ctx, g.h.ours(g.dir), g.repo.ObjectFormat, changes)
}
