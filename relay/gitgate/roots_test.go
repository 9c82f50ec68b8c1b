package gitgate_test

import (
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
)

// TestACommitBehindARootIsLookedAt: git prints no line for the parents of a commit
// that has none, and what it prints next is a commit, too.
func TestACommitBehindARootIsLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.record.BaseOID
	trap, plain := leaf{"120000", "x", "../outside"}, leaf{"100644", "y", ""}
	one, two := w.commitOf([]leaf{trap}), w.commitOf([]leaf{plain})
	for name, first := range map[string]bool{"the first": true, "the second": false} {
		parents := []core.ObjectID{base, two, one}
		if first {
			parents = []core.ObjectID{base, one, two}
		}
		tip := w.commitOf([]leaf{plain, trap}, parents...)
		if l := w.land(tip, base); l.Status != wire.LandedHeld || !strings.Contains(l.Detail, "out of the tree") {
			t.Errorf("the trap is in %s root: %+v", name, l)
		}
	}
}
