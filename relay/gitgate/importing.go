package gitgate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay/packscan"
	"github.com/madarco/agentbox/relay/treecheck"
)

// Import implements relay.Gate.
func (g *gate) Import(ctx context.Context, pack string, updates []policy.RefUpdate) error {
	end, err := g.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	imports, first, err := g.nextImports(ctx, updates)
	if err != nil || len(imports) == 0 {
		return err
	}
	in, err := g.scanned(pack)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	refused, err := g.h.receive(ctx, g.intoGate(), g.repo.ObjectFormat, imports, in)
	var failed *gitError
	switch {
	case errors.As(err, &failed), errors.Is(err, errReport):
		return rejected("git could not read the pack: %w", err)
	case err != nil:
		return fmt.Errorf("import into the gate: %w", err)
	case refused["unpack"] != "":
		return rejected("git refuses the pack: %s", core.Untrusted(refused["unpack"]).Quote())
	}
	for _, u := range imports {
		if err == nil && refused[u.Ref] != "" {
			err = rejected("commit %s is not whole: %s", u.New.Short(), core.Untrusted(refused[u.Ref]).Quote())
		}
	}
	for _, u := range imports {
		if err == nil {
			_, err = g.inspect(ctx, u.New)
		}
	}
	return errors.Join(err, g.trimImports(ctx, imports, first, err != nil))
}

// nextImports gives each new object a ref of its own, leaving out what is
// imported already.
func (g *gate) nextImports(ctx context.Context, updates []policy.RefUpdate) (imports []policy.RefUpdate, first []ref, err error) {
	have, err := g.h.storedRefs(ctx, g.dir, refImport)
	if err != nil {
		return nil, nil, err
	}
	known, next := map[core.ObjectID]bool{}, 0
	for _, r := range have {
		known[r.oid] = true
		next = max(next, number(r.name))
	}
	for _, u := range updates {
		if u.New.IsZero() || known[u.New] {
			continue
		}
		known[u.New] = true
		next++
		imports = append(imports, policy.RefUpdate{Ref: numbered(refImport, next), New: u.New})
	}
	return imports, have, nil
}

// numbered makes refs that sort by number.
func numbered(prefix string, n int) string { return fmt.Sprintf("%s%012d", prefix, n) }

func number(name string) int {
	n, _ := strconv.Atoi(name[strings.LastIndexByte(name, '/')+1:])
	return n
}

// trimImports takes back imports that failed, and the oldest of too many.
func (g *gate) trimImports(ctx context.Context, imports []policy.RefUpdate, older []ref, failed bool) error {
	var changes []change
	if failed {
		for _, u := range imports {
			changes = append(changes, change{ref: u.Ref, old: anyValue})
		}
	} else if excess := len(older) + len(imports) - importLimit; excess > 0 {
		for _, r := range older[:min(excess, len(older))] {
			changes = append(changes, change{ref: r.name, old: anyValue})
		}
	}
	return g.h.moveRefs(ctx, g.h.ours(g.dir), g.repo.ObjectFormat, changes)
}

// scanned opens a spooled pack that our own decoder has read from end to end.
func (g *gate) scanned(path string) (io.ReadCloser, error) {
	if path == "" {
		return io.NopCloser(emptyPack(g.repo.ObjectFormat)), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the spooled pack: %w", err)
	}
	_, err = packscan.Scan(f, g.repo.ObjectFormat, g.h.pack)
	var bound *packscan.BoundError
	switch {
	case errors.Is(err, packscan.ErrMalformed), errors.As(err, &bound):
		err = rejected("%w", err)
	case err == nil:
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// maxCommits bounds the history that one import may add.
const maxCommits = 200_000

// history lists the commits that tip reaches and without does not, newest
// first, as lines.
func (g *gate) history(ctx context.Context, tip core.ObjectID, without []core.ObjectID) ([]byte, int, error) {
	cmd := g.in("rev-list", "--stdin")
	cmd.stdin = revisions([]core.ObjectID{tip + "^{commit}"}, without) // fails on what is no commit
	out, err := g.h.run.run(ctx, cmd)
	if exitCode(err) > 0 {
		return nil, 0, rejected("%s is no commit, or its history can't be read", tip.Short())
	} else if err != nil {
		return nil, 0, unreadable(err)
	}
	n := bytes.Count(out, []byte("\n"))
	if n > maxCommits {
		return nil, 0, rejected("%d commits at once; at most %d are taken", n, maxCommits)
	}
	return out, n, nil
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
func (g *gate) inspect(ctx context.Context, tip core.ObjectID) ([]policy.Finding, error) {
	key := g.dir + "\x00" + string(tip)
	if found, ok := g.h.findings.get(key); ok {
		return found, nil
	}
	found, err := g.inspectNow(ctx, tip)
	if err == nil {
		g.h.findings.put(key, found)
	}
	return found, err
}

// inspectNow runs the tree check over all commits that tip adds to the trusted
// ones: a tree that is clean at the tip may be a trap one commit earlier.
func (g *gate) inspectNow(ctx context.Context, tip core.ObjectID) ([]policy.Finding, error) {
	trusted, err := g.trusted(ctx)
	if err != nil {
		return nil, err
	}
	added, count, err := g.history(ctx, tip, trusted)
	if err != nil || count == 0 {
		return nil, err
	}
	check := treecheck.New(g.h.tree)
	diff := g.in("diff-tree", "--stdin", "-r", "-c", "--root", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-commit-id")
	diff.stdin = bytes.NewReader(added)
	if err := g.h.run.stream(ctx, diff, check.Changes); err != nil {
		return nil, unreadable(err)
	}
	if err := g.contents(ctx, check); err != nil {
		return nil, err
	}
	if check.NeedsTree() {
		if err := g.h.run.stream(ctx, g.in("ls-tree", "-r", "-z", "--full-tree", string(tip)), check.Tree); err != nil {
			return nil, unreadable(err)
		}
	}
	return check.Findings(), nil
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
func (g *gate) contents(ctx context.Context, check *treecheck.Check) error {
	wants := check.Wants()
	if len(wants) == 0 {
		return nil
	}
	var in bytes.Buffer
	idLines(&in, "", wants)
	cmd := g.in("cat-file", "--batch=%(objectname) %(objecttype) %(objectsize)")
	cmd.stdin = &in
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
