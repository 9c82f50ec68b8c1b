package gitgate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
)

// ErrIncomplete: a partial clone lacks what a box of it would need at once.
// Nothing is fetched on the way: that would be the user's line and credentials.
var ErrIncomplete = errors.New("the partial clone lacks contents of files that the box would have")

// checkBlobs makes sure that the contents which a box checks out are here.
func (c *Carry) checkBlobs(ctx context.Context, needed []core.ObjectID) error {
	if !c.repo.Partial {
		return nil
	}
	slices.Sort(needed)
	needed = slices.Compact(needed)
	have, err := c.h.existing(ctx, c.h.theirs(c.repo), needed)
	if err != nil {
		return err
	}
	if missing := len(needed) - len(have); missing > 0 {
		return fmt.Errorf("%w: %s", ErrIncomplete, count(missing, "file"))
	}
	return nil
}

// checkComplete is checkBlobs for all of the commit that the box starts at.
func (c *Carry) checkComplete(ctx context.Context) error {
	if !c.repo.Partial {
		return nil
	}
	tree, err := c.headTree(ctx)
	if err != nil {
		return err
	}
	var needed []core.ObjectID
	for _, e := range tree {
		if e.mode != modeGitlink {
			needed = append(needed, core.ObjectID(e.oid))
		}
	}
	return c.checkBlobs(ctx, needed)
}

// notFetched tells that git met an object which a partial clone lacks, and was
// kept from fetching it: that ends a look-up of many at the first.
func notFetched(err error) bool {
	var g *gitError
	return errors.As(err, &g) && strings.Contains(string(g.stderr), "promisor")
}

// local keeps the ids of objects that are in a partial clone, by a look at all
// that are: no other listing of git's asks for none that is not.
func (h *Host) local(ctx context.Context, base command, ids []core.ObjectID) ([]core.ObjectID, error) {
	asked := map[core.ObjectID]bool{}
	for _, id := range ids {
		asked[id] = true
	}
	base.args, base.stdin, base.deadline = []string{"cat-file", "--batch-all-objects", "--batch-check=%(objectname)"}, nil, capture
	var have []core.ObjectID
	err := h.run.stream(ctx, base, func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			if id := core.ObjectID(lines.Text()); asked[id] {
				have = append(have, id)
			}
		}
		return lines.Err()
	})
	return have, err
}
