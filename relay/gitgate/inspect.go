package gitgate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/redlist"
	"github.com/madarco/agentbox/relay/treecheck"
)

// view makes commands that see a gate, or a gate and what is about to come in.
type view func(args ...string) command

// maxCommits bounds the history that one import may add.
const maxCommits = 200_000

// history is what a change adds.
type history struct {
	commits bytes.Buffer           // their ids as lines, newest first
	merges  [][]string             // of each its id and its parents'
	large   map[core.ObjectID]bool // files of redlist.Large bytes or more
}

// connected lists the commits that tip reaches and without does not, and makes
// sure that all they need is here: git ends with an error at the first object
// that is missing. The filter leaves large files out of what git lists, after it
// has found them, and tells of them at the end.
func (g *gate) connected(ctx context.Context, in view, tip core.ObjectID, without []core.ObjectID) (*history, error) {
	cmd := in("rev-list", "--objects", "--stdin", "--format= %P", fmt.Sprintf("--filter=blob:limit=%d", redlist.Large), "--filter-print-omitted")
	cmd.stdin = revisions([]core.ObjectID{tip, tip + "^{commit}"}, without) // fails on what is no commit
	added, n, commit := &history{large: map[core.ObjectID]bool{}}, 0, ""
	err := g.h.run.stream(ctx, cmd, func(r io.Reader) error {
		return eachRecord(r, '\n', func(line []byte) error {
			if commit != "" { // the line behind a commit's holds its parents, and a space: git leaves out an empty one
				if ids := strings.Fields(commit + " " + string(line)); len(ids) > 2 {
					added.merges = append(added.merges, ids)
				}
				commit = ""
				return nil
			}
			if name, ok := bytes.CutPrefix(line, []byte("~")); ok {
				blob, err := core.ParseObjectID(string(name))
				added.large[blob] = true
				return err
			}
			id, ok := bytes.CutPrefix(line, []byte("commit "))
			if !ok {
				return nil // another object begins with its id
			}
			if n++; n > maxCommits {
				return rejected("more than %d commits at once", maxCommits)
			}
			commit = string(id)
			added.commits.Write(id)
			return added.commits.WriteByte('\n')
		})
	})
	if exitCode(err) > 0 {
		return nil, rejected("%s is no commit, or not whole: %w", tip.Short(), err)
	}
	return added, unreadable(err)
}

// recordKept is how much of a record eachRecord hands on.
const recordKept = 32 << 10

// eachRecord hands on the records of r, each ended by end, without their ends
// and cut to what recordKept allows: a box chooses how long they are.
func eachRecord(r io.Reader, end byte, each func([]byte) error) error {
	in := bufio.NewReaderSize(r, recordKept)
	for {
		record, err := in.ReadSlice(end)
		first := record
		if errors.Is(err, bufio.ErrBufferFull) {
			first = bytes.Clone(record)
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice(end)
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(first) > 0 {
			if err := each(bytes.TrimSuffix(first, []byte{end})); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// trusted are the commits whose trees need no look: the remote's, the user's,
// and what has landed.
func (g *gate) trusted(ctx context.Context) ([]core.ObjectID, error) {
	refs, err := g.seedRefs(ctx)
	if err != nil {
		return nil, err
	}
	own, err := g.h.storedRefs(ctx, g.dir, "refs/base", refHost, refHeads)
	if err != nil {
		return nil, err
	}
	return commits(append(refs, own...)), nil
}

// inspect is the tree check of a commit, remembered from its import on: what
// is trusted only grows, so an earlier answer never says less.
func (g *gate) inspect(ctx context.Context, tip core.ObjectID) (survey, error) {
	key := g.dir + "\x00" + string(tip)
	if s, ok := g.h.surveys.get(key); ok {
		return s, nil
	}
	s, err := g.survey(ctx, g.in, tip)
	if err == nil {
		g.h.surveys.put(key, s.kept())
	}
	return s, err
}

// survey is what a look at all commits that a tip adds to the trusted ones has
// shown.
type survey struct {
	findings []policy.Finding
	red      []redlist.Group
	large    map[core.ObjectID]bool // blobs that are added and on the red list for their size
	// sole tells that the tip alone is added, and entries how many paths it
	// changes then, if it is no merge.
	sole    bool
	entries int
}

// kept is what is remembered: the rest is not bounded.
func (s survey) kept() survey {
	s.large = nil
	return s
}

// survey makes sure that a commit is whole and runs the tree check over all
// commits that it adds to the trusted ones: a tree that is clean at the tip may
// be a trap one commit earlier.
func (g *gate) survey(ctx context.Context, in view, tip core.ObjectID) (survey, error) {
	trusted, err := g.trusted(ctx)
	if err != nil || slices.Contains(trusted, tip) {
		return survey{}, err
	}
	added, err := g.connected(ctx, in, tip, trusted)
	if err != nil || added.commits.Len() == 0 {
		return survey{}, err
	}
	listed := added.commits.Bytes()
	check := treecheck.New(g.h.tree)
	check.Large(added.large)
	diff := in("diff-tree", "--stdin", "-r", "-c", "--root", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-commit-id")
	diff.stdin = bytes.NewReader(listed)
	var ends counter
	err = g.h.run.stream(ctx, diff, func(out io.Reader) error { return check.Changes(io.TeeReader(out, &ends)) })
	if err != nil {
		return survey{}, unreadable(err)
	}
	if err := g.merges(ctx, in, added.merges, check); err != nil {
		return survey{}, err
	}
	if err := g.contents(ctx, in, check); err != nil {
		return survey{}, err
	}
	if check.NeedsTree() {
		if err := g.h.run.stream(ctx, in("ls-tree", "-r", "-z", "--full-tree", string(tip)), check.Tree); err != nil {
			return survey{}, unreadable(err)
		}
	}
	large, err := g.large(listed)
	if err == nil && len(large) == 0 {
		large, err = g.heavy(ctx, in, added.large)
	}
	return survey{
		findings: append(large, check.Findings()...), red: check.RedList(), large: added.large,
		sole: string(listed) == string(tip)+"\n", entries: int(ends) / 2, // metadata and path of each
	}, err
}

// unreadable turns what a hostile tree does to git or to the check into a
// rejection.
func unreadable(err error) error {
	var failed *gitError
	var bound *treecheck.BoundError
	if errors.As(err, &failed) || errors.As(err, &bound) || errors.Is(err, treecheck.ErrMalformed) {
		return rejected("the commits can't be looked at: %w", err)
	}
	return err
}

// maxContent is the largest blob that a rule looks into.
const maxContent = 1 << 20

// contents hands the check the blobs that its rules want to see.
func (g *gate) contents(ctx context.Context, in view, check *treecheck.Check) error {
	wants := check.Wants()
	if len(wants) == 0 {
		return nil
	}
	var ids bytes.Buffer
	idLines(&ids, "", wants)
	cmd := in("cat-file", "--batch=%(objectname) %(objecttype) %(objectsize)")
	cmd.stdin = &ids
	err := g.h.run.stream(ctx, cmd, func(out io.Reader) error {
		r := bufio.NewReader(out)
		for range wants {
			if err := oneContent(r, check); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return unreadable(err)
	}
	return nil
}

// oneContent reads one answer of `cat-file --batch`. What is missing or too
// long is not handed in, and so counts as hit.
func oneContent(r *bufio.Reader, check *treecheck.Check) error {
	head, err := r.ReadString('\n')
	if err != nil {
		return fmt.Errorf("%w: git's answer ends early", treecheck.ErrMalformed)
	}
	f := strings.Fields(head)
	if len(f) == 2 && f[1] == "missing" {
		return nil
	}
	if len(f) != 3 {
		return fmt.Errorf("%w: git's answer", treecheck.ErrMalformed)
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || size < 0 {
		return fmt.Errorf("%w: git's answer", treecheck.ErrMalformed)
	}
	if size > maxContent {
		_, err := io.CopyN(io.Discard, r, size+1)
		return err
	}
	data := make([]byte, size+1)
	if _, err := io.ReadFull(r, data); err != nil {
		return err
	}
	check.Content(core.ObjectID(f[0]), data[:size])
	return nil
}
