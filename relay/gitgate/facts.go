package gitgate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
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
	var f policy.Facts
	err := g.facts(ctx, u, &f)
	if err != nil {
		return f, fmt.Errorf("look at %s: %w", u.New.Short(), err)
	}
	return f, nil
}

func (g *gate) facts(ctx context.Context, u policy.RefUpdate, f *policy.Facts) (err error) {
	if f.Findings, err = g.inspect(ctx, u.New); err != nil {
		return err
	}
	f.FastForward = u.Old.IsZero()
	var known []core.ObjectID // Old, or nothing if the gate lacks it
	if !u.Old.IsZero() {
		if f.FastForward, err = g.h.isAncestor(ctx, g.in(), u.Old, u.New); err != nil {
			return err
		}
		if known, err = g.h.existing(ctx, g.in(), []core.ObjectID{u.Old}); err != nil {
			return err
		}
	}
	old := len(known) > 0
	if !old {
		refs, err := g.seedRefs(ctx)
		if err != nil {
			return err
		}
		known = commits(refs)
	}
	added, count, err := g.history(ctx, u.New, known)
	if err != nil {
		return err
	}
	from := u.Old
	switch {
	case old:
	case count == 0:
		from = u.New
	default:
		if from, err = g.nearest(ctx, u.New, known); err != nil {
			return err
		}
	}
	f.Commits = count
	if f.Files, err = g.files(ctx, from, u.New); err != nil {
		return err
	}
	f.Subjects, err = g.subjects(ctx, added)
	return err
}

// files counts the paths that differ between two commits; from may be empty.
func (g *gate) files(ctx context.Context, from, to core.ObjectID) (int, error) {
	if from == "" {
		from = emptyTreeSHA1
		if g.repo.ObjectFormat == "sha256" {
			from = emptyTreeSHA256
		}
	}
	var n counter
	diff := g.in("diff-tree", "-r", "-z", "--name-only", "--no-renames", string(from), string(to))
	if err := g.h.run.pipe(ctx, diff, &n); err != nil {
		return 0, unreadable(err)
	}
	return int(n), nil
}

// nearest is the newest commit of tip's history that known reaches, "" if none.
func (g *gate) nearest(ctx context.Context, tip core.ObjectID, known []core.ObjectID) (core.ObjectID, error) {
	cmd := g.in("rev-list", "--stdin", "--boundary")
	cmd.stdin = revisions([]core.ObjectID{tip}, known)
	out, err := g.h.run.run(ctx, cmd)
	if err != nil {
		return "", unreadable(err)
	}
	for line := range strings.Lines(string(out)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "-"); ok {
			return core.ObjectID(id), nil
		}
	}
	return "", nil
}

// subjects are the first lines of the newest of the listed commits.
func (g *gate) subjects(ctx context.Context, added []byte) ([]core.Untrusted, error) {
	newest := added
	for i, n := 0, 0; i < len(added); i++ {
		if added[i] == '\n' {
			if n++; n == maxSubjects {
				newest = added[:i+1]
				break
			}
		}
	}
	if len(newest) == 0 {
		return nil, nil
	}
	cmd := g.in("log", "--no-walk=unsorted", "--stdin", "-z", "--format=%s", "--encoding=UTF-8")
	cmd.stdin = bytes.NewReader(newest)
	out, err := g.h.run.run(ctx, cmd)
	if err != nil {
		return nil, unreadable(err)
	}
	var subjects []core.Untrusted
	for s := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		subjects = append(subjects, core.Untrusted(s[:min(len(s), maxSubjectBytes)]))
	}
	return subjects, nil
}

// counter counts NULs.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(bytes.Count(p, []byte{0}))
	return len(p), nil
}

var _ io.Writer = (*counter)(nil)
