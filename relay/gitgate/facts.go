package gitgate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/redlist"
	"github.com/madarco/agentbox/relay/treecheck"
)

// The ids of the tree without entries, which git knows without storing it.
const (
	emptyTreeSHA1   core.ObjectID = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	emptyTreeSHA256 core.ObjectID = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
)

// How much of the subjects a decision shows.
const (
	maxSubjects     = 20
	maxSubjectBytes = 400
)

// Facts implements relay.Gate.
func (g *gate) Facts(ctx context.Context, u policy.RefUpdate) (policy.Facts, error) {
	f, err := g.factsOf(ctx, u)
	if err != nil {
		return f, fmt.Errorf("look at %s: %w", u.New.Short(), err)
	}
	return f, nil
}

func (g *gate) factsOf(ctx context.Context, u policy.RefUpdate) (f policy.Facts, err error) {
	s, err := g.inspect(ctx, u.New)
	if err != nil {
		return f, err
	}
	f, ok := g.h.facts.take(g.factsKey(u))
	if !ok {
		added, err := g.added(ctx, g.in, u)
		if err != nil {
			return f, err
		}
		if f, err = g.counts(ctx, g.in, u, added, survey{}); err != nil {
			return f, err
		}
	}
	f.Findings, f.RedList = s.findings, redlist.Merge(f.RedList, s.red)
	f.CI, err = g.ci(ctx, u)
	return f, err
}

// factsKey names what an import has found out about an update beside its
// findings. It is used once: the next time the remote may be elsewhere.
func (g *gate) factsKey(u policy.RefUpdate) string {
	return strings.Join([]string{g.dir, string(u.Old), string(u.New)}, "\x00")
}

// added is the history that an update adds.
type added struct {
	commits     int
	subjects    []core.Untrusted
	parents     []core.ObjectID // of the newest commit
	fastForward bool
	from        core.ObjectID // what it is added to, empty for nothing
}

// added looks at what New reaches and Old does not, or, where there is no Old or
// the gate lacks it, the remote.
func (g *gate) added(ctx context.Context, in view, u policy.RefUpdate) (added, error) {
	a := added{fastForward: u.Old.IsZero() || u.Old == u.New}
	known, err := g.holds(ctx, in, u.Old)
	if err != nil {
		return a, err
	}
	without := []core.ObjectID{u.Old}
	if !known {
		refs, err := g.seedRefs(ctx)
		if err != nil {
			return a, err
		}
		without = commits(refs)
	}
	cmd := in("log", "--stdin", "--boundary", "-z", "--format=%m%H %P%n%s", "--encoding=UTF-8")
	cmd.stdin = revisions([]core.ObjectID{u.New + "^{commit}"}, without)
	err = g.h.run.stream(ctx, cmd, func(r io.Reader) error {
		return eachRecord(r, 0, func(record []byte) error { return a.add(record, u.Old) })
	})
	if exitCode(err) > 0 {
		return a, rejected("%s is no commit, or its history can't be read", u.New.Short())
	} else if err != nil {
		return a, unreadable(err)
	}
	switch {
	case known:
		a.from = u.Old
	case a.commits == 0:
		a.from = u.New
	}
	return a, nil
}

// add takes one record: a commit that is added, or one at the boundary.
func (a *added) add(record []byte, old core.ObjectID) error {
	head, subject, _ := strings.Cut(string(record), "\n")
	ids := strings.Fields(strings.TrimLeft(head, "-<>"))
	if len(ids) == 0 {
		return nil
	}
	if record[0] == '-' {
		if id := core.ObjectID(ids[0]); id == old {
			a.fastForward = true
		} else if a.from == "" {
			a.from = id
		}
		return nil
	}
	if a.commits++; a.commits > maxCommits {
		return rejected("more than %d commits at once", maxCommits)
	}
	if a.commits == 1 {
		for _, id := range ids[1:] {
			a.parents = append(a.parents, core.ObjectID(id))
		}
	}
	if len(a.subjects) < maxSubjects {
		a.subjects = append(a.subjects, core.Untrusted(subject[:min(len(subject), maxSubjectBytes)]))
	}
	return nil
}

// holds tells whether the gate has an object for an id. Nearly always a ref is
// there.
func (g *gate) holds(ctx context.Context, in view, id core.ObjectID) (bool, error) {
	if id.IsZero() {
		return false, nil
	}
	own, err := g.h.storedRefs(ctx, g.dir)
	if err != nil {
		return false, err
	}
	remote, err := g.seedRefs(ctx)
	if err != nil {
		return false, err
	}
	for _, r := range append(own, remote...) {
		if r.oid == id {
			return true, nil
		}
	}
	have, err := g.h.existing(ctx, in(), []core.ObjectID{id})
	return len(have) > 0, err
}

// counts makes facts of what is added. A survey of the same single commit has
// counted its files, and seen all that is on the red list.
func (g *gate) counts(ctx context.Context, in view, u policy.RefUpdate, a added, s survey) (policy.Facts, error) {
	f := policy.Facts{FastForward: a.fastForward, Commits: a.commits, Subjects: a.subjects, RedList: s.red}
	var from []core.ObjectID
	if a.from != "" {
		from = append(from, a.from)
	}
	if s.sole && a.commits == 1 && slices.Equal(a.parents, from) {
		f.Files = s.entries
		return f, nil
	}
	files, red, err := g.difference(ctx, in, a.from, u.New, s.large)
	f.Files, f.RedList = files, redlist.Merge(red, s.red)
	return f, err
}

// difference counts the paths that differ between two commits, and tells which
// are on the red list; from may be empty. Large files are those that the gate
// knows and those that are about to come in.
func (g *gate) difference(ctx context.Context, in view, from, to core.ObjectID, coming map[core.ObjectID]bool) (files int, red []redlist.Group, err error) {
	large, err := g.largeFiles()
	if err != nil {
		return 0, nil, err
	}
	maps.Copy(large, coming)
	if from == "" {
		from = emptyTreeSHA1
		if g.repo.ObjectFormat == "sha256" {
			from = emptyTreeSHA256
		}
	}
	diff := in("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", string(from), string(to))
	err = g.h.run.stream(ctx, diff, func(out io.Reader) error {
		var err error
		files, red, err = treecheck.Difference(out, large)
		return err
	})
	return files, red, unreadable(err)
}

// counter counts NULs.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(bytes.Count(p, []byte{0}))
	return len(p), nil
}

var _ io.Writer = (*counter)(nil)
