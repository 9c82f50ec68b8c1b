package gitgate

import (
	"bytes"
	"context"

	"github.com/madarco/agentbox/relay/treecheck"
)

// maxParents bounds a merge: each place among the parents is looked at.
const maxParents = 8

// merges shows the check the merges among the added commits from each of their
// sides. A combined diff leaves out what is as in one of the parents, and so what
// two of them form together.
func (g *gate) merges(ctx context.Context, in view, merges [][]string, check *treecheck.Check) error {
	var sides [maxParents]bytes.Buffer
	for _, ids := range merges { // each its own and its parents'
		if len(ids)-1 > maxParents {
			return rejected("a merge of %d branches; at most %d are taken", len(ids)-1, maxParents)
		}
		for n, parent := range ids[1:] {
			sides[n].WriteString(ids[0] + " " + parent + "\n")
		}
	}
	for n := range sides {
		if sides[n].Len() == 0 {
			break
		}
		diff := in("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-commit-id")
		diff.stdin = &sides[n]
		if err := g.h.run.stream(ctx, diff, check.Side); err != nil {
			return unreadable(err)
		}
	}
	return nil
}
