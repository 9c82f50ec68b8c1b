package gitgate

import (
	"bytes"
	"context"
	"strings"

	"github.com/madarco/agentbox/relay/treecheck"
)

// maxParents bounds a merge: each place among the parents is looked at.
const maxParents = 8

// merges shows the check the merges among the added commits from each of their
// sides. A combined diff leaves out what is as in one of the parents, and so what
// two of them form together.
func (g *gate) merges(ctx context.Context, in view, added []byte, check *treecheck.Check) error {
	list := in("rev-list", "--stdin", "--no-walk=unsorted", "--min-parents=2", "--parents")
	list.stdin = bytes.NewReader(added)
	out, err := g.h.run.run(ctx, list)
	if err != nil || len(out) == 0 {
		return unreadable(err)
	}
	var sides [maxParents]bytes.Buffer
	for line := range strings.Lines(string(out)) {
		ids := strings.Fields(line)
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
