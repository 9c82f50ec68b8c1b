package gitgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/atomicfile"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
)

// The refs of a gate. Each holds commits that nobody else may have.
const (
	refStart  = "refs/base/start"  // the commit that the box started from
	refHost   = "refs/host/"       // the user's branch of that name, shown to the box
	refRemote = "refs/remote/"     // the box's own branches as the remote has them
	refHeads  = "refs/box/heads/"  // what has landed
	refKept   = "refs/box/kept/"   // what was handed in and has not landed
	refOld    = "refs/box/old/"    // tips that a rewrite replaced, by number
	refImport = "refs/box/import/" // what was imported and not placed yet, by number
)

// How many numbered refs stay; the oldest go first.
const (
	oldLimit    = 200
	importLimit = 500
)

// gate is one box's gate of one repository.
type gate struct {
	h      *Host
	box    core.Box
	repo   core.Repo
	dir    string
	access *access
	// What a push has read of the user's configuration, from its import to its
	// decision, and from there to its run.
	imported, decided handover
}

var (
	_ relay.Gates = (*Host)(nil)
	_ relay.Gate  = (*gate)(nil)
)

// Gate implements relay.Gates.
func (h *Host) Gate(ctx context.Context, box core.Box, repo core.Repo) (relay.Gate, error) {
	if !core.ValidBoxID(box.ID) || !core.ValidRepoKey(repo.Key) {
		return nil, fmt.Errorf("open a gate of box %s: %w: id or repository key", core.Untrusted(box.ID).Quote(), core.ErrInvalid)
	}
	g := &gate{h: h, box: box, repo: repo, dir: h.home.Gate(box.ID, repo.Key)}
	var first bool
	g.access, first = h.gateAccess(g.dir)
	if _, err := os.Stat(g.dir); err == nil && !first {
		return g, nil
	}
	g.access.Lock()
	defer g.access.Unlock()
	if _, err := os.Stat(g.dir); errors.Is(err, os.ErrNotExist) {
		if err := g.make(ctx); err != nil {
			return nil, fmt.Errorf("make the gate of box %s: %w", box.Name, err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("open the gate of box %s: %w", box.Name, err)
	}
	if first {
		if err := g.sweep(); err != nil {
			return nil, fmt.Errorf("clean the gate of box %s: %w", box.Name, err)
		}
	}
	return g, nil
}

// make builds the gate from what the user's repository has of the box: the
// commit that it started from, its own branch, and the user's branch.
func (g *gate) make(ctx context.Context) error {
	if _, err := os.Stat(g.h.home.Seed(g.repo.Key)); errors.Is(err, os.ErrNotExist) {
		user, err := g.h.Open(ctx, g.repo.WorkTree)
		if err != nil {
			return err
		}
		if err := g.h.RefreshSeed(ctx, user); err != nil {
			return err
		}
	}
	user, err := g.user()
	if err != nil {
		return err
	}
	unlock, err := g.h.lock(ctx, g.repo.Key, false)
	if err != nil {
		return err
	}
	defer unlock()
	return makeRepository(g.dir, g.repo.ObjectFormat, func(temp string) error {
		info := filepath.Join(temp, "objects", "info", "alternates")
		if err := atomicfile.Write(info, []byte(g.h.SeedObjects(g.repo.Key)+"\n"), 0o600); err != nil {
			return err
		}
		if err := g.copyShallow(temp); err != nil {
			return err
		}
		return g.borrow(ctx, user, temp)
	})
}

// borrow takes over what the user's repository has of the box.
func (g *gate) borrow(ctx context.Context, user *Repository, dir string) error {
	wanted := []struct{ ref, source string }{{refStart, string(g.repo.BaseOID)}}
	for _, b := range []struct {
		prefix string
		branch core.BranchName
	}{{refHeads, g.repo.Branch}, {refHeads, g.repo.Sanctioned}, {refHost, g.repo.BaseBranch}} {
		if b.branch != "" {
			wanted = append(wanted, struct{ ref, source string }{b.prefix + string(b.branch), b.branch.Ref()})
		}
	}
	var names []string
	for _, w := range wanted {
		names = append(names, w.source)
	}
	ids, err := g.userCommits(ctx, user, names...)
	if err != nil {
		return err
	}
	var changes []change
	for i, w := range wanted {
		if ids[i] != "" {
			changes = append(changes, change{w.ref, ids[i], ""})
		}
	}
	return g.adopt(ctx, user, dir, changes)
}

// userCommits resolves refs or ids in the user's repository, in their order, to
// "" what is not there.
func (g *gate) userCommits(ctx context.Context, user *Repository, names ...string) ([]core.ObjectID, error) {
	cmd := g.h.theirs(user, "cat-file", "--batch-check=%(objectname)")
	cmd.stdin = strings.NewReader(strings.Join(names, "^{commit}\n") + "^{commit}\n")
	out, err := g.h.run.run(ctx, cmd)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(names) {
		return nil, errGitOutput
	}
	ids := make([]core.ObjectID, len(names))
	for i, line := range lines {
		if id, err := core.ParseObjectID(line); err == nil { // else "<name> missing"
			ids[i] = id
		}
	}
	return ids, nil
}

// adopt copies commits of the user's repository that the gate in dir may have,
// and sets the refs that hold them.
func (g *gate) adopt(ctx context.Context, user *Repository, dir string, changes []change) error {
	var tips []core.ObjectID
	for _, store := range []string{g.h.home.Seed(g.repo.Key), dir} {
		refs, err := g.h.storedRefs(ctx, store)
		if err != nil {
			return err
		}
		for _, r := range refs {
			tips = append(tips, r.oid)
		}
	}
	p := packing{from: g.h.theirs(user), partial: user.Partial, store: filepath.Join(user.CommonDir, "objects")}
	for _, c := range changes {
		p.want = append(p.want, c.new)
	}
	if !holds(tips, p.want) {
		var err error
		if p.exclude, err = g.h.existing(ctx, p.from, tips); err != nil {
			return err
		}
		if err := g.h.copyObjects(ctx, p, dir); err != nil {
			return err
		}
	}
	return g.h.setRefs(ctx, dir, g.repo.ObjectFormat, changes)
}

// user is the user's repository by the record, for the few commands that
// need no work tree.
func (g *gate) user() (*Repository, error) {
	st, err := os.Stat(g.repo.CommonDir)
	if err != nil {
		return nil, fmt.Errorf("find the user's repository: %w", err)
	}
	owner, ok := accountOf(st)
	if !ok {
		return nil, fmt.Errorf("use %s: %w", g.repo.CommonDir, ErrNotOwner)
	}
	return &Repository{
		Key: g.repo.Key, GitDir: g.repo.CommonDir, CommonDir: g.repo.CommonDir, WorkTree: "/",
		ObjectFormat: g.repo.ObjectFormat, Remote: g.repo.Remote, owner: owner,
	}, nil
}

// copyShallow takes over the seed's boundary: it is not read through alternates.
func (g *gate) copyShallow(dir string) error {
	boundary, err := shallowOf(g.h.home.Seed(g.repo.Key))
	if err != nil {
		return err
	}
	return writeShallow(dir, boundary)
}

// sweep removes what git left in the gate when it was killed. Nobody else works
// in it yet.
func (g *gate) sweep() error {
	objects := filepath.Join(g.dir, "objects")
	if err := removeAll(
		filepath.Join(objects, "tmp_objdir-*"), filepath.Join(objects, "incoming-*"),
		filepath.Join(objects, "pack", "tmp_*"), filepath.Join(objects, "pack", ".tmp-*"),
	); err != nil {
		return err
	}
	return removeLocks(g.dir)
}

// ObjectFormat implements relay.Gate.
func (g *gate) ObjectFormat() string { return g.repo.ObjectFormat }

// thrift keeps git's maps of large packs within the bounds of a child.
var thrift = []string{"core.packedGitWindowSize=32m", "core.packedGitLimit=256m", "core.deltaBaseCacheLimit=64m", "pack.threads=1"}

// in is a command in the gate, limited because it meets a box's objects.
func (g *gate) in(args ...string) command {
	c := g.h.ours(g.dir, args...)
	c.config = append(c.config, thrift...)
	c.limits = &importBounds
	return c
}

// begin serializes a change of the gate with others in this process, and with
// those who remove objects in any process.
func (g *gate) begin(ctx context.Context) (end func(), err error) {
	g.access.Lock()
	unlock, err := g.h.lock(ctx, g.repo.Key, false)
	if err != nil {
		g.access.Unlock()
		return nil, err
	}
	return func() {
		unlock()
		g.access.Unlock()
		g.h.chores.add(g)
	}, nil
}

// seedRefs lists what the remote has, by its own names.
func (g *gate) seedRefs(ctx context.Context) ([]ref, error) {
	if g.repo.Remote == "" {
		return nil, nil
	}
	prefix := seedPrefix(g.repo.Remote)
	refs, err := g.h.storedRefs(ctx, g.h.home.Seed(g.repo.Key), prefix+"heads", prefix+"tags")
	for i := range refs {
		refs[i].name = "refs/" + strings.TrimPrefix(refs[i].name, prefix)
	}
	return refs, err
}

// Refs implements relay.Gate.
func (g *gate) Refs(ctx context.Context, forPush bool) (relay.Refs, error) {
	remote, err := g.seedRefs(ctx)
	if err != nil {
		return relay.Refs{}, fmt.Errorf("list the remote's refs: %w", err)
	}
	own, err := g.h.storedRefs(ctx, g.dir)
	if err != nil {
		return relay.Refs{}, fmt.Errorf("list the gate's refs: %w", err)
	}
	var out relay.Refs
	for _, r := range remote {
		out.List = append(out.List, relay.Ref{Name: r.name, OID: r.oid, Peeled: r.peeled})
	}
	for _, r := range own {
		if name, ok := g.shownAs(r.name, forPush); ok {
			out.List = append(out.List, relay.Ref{Name: name, OID: r.oid, Peeled: r.peeled})
		} else if !strings.HasPrefix(r.name, refImport) {
			out.Have = append(out.Have, r.oid)
		}
	}
	slices.SortFunc(out.List, func(a, b relay.Ref) int { return strings.Compare(a.Name, b.Name) })
	if g.repo.Remote != "" {
		if out.Head, err = g.remoteHead(); err != nil {
			return relay.Refs{}, err
		}
	}
	if out.Shallow, err = shallowOf(g.dir); err != nil {
		return relay.Refs{}, fmt.Errorf("list the gate's refs: %w", err)
	}
	return out, nil
}

// shownAs is the name by which the box sees a ref of the gate.
func (g *gate) shownAs(name string, forPush bool) (string, bool) {
	if branch, ok := strings.CutPrefix(name, refRemote); ok {
		return "refs/heads/" + branch, true
	}
	if branch, ok := strings.CutPrefix(name, refHeads); ok && forPush {
		return wire.LandingPrefix + branch, true
	}
	if branch, ok := strings.CutPrefix(name, refHost); ok && !forPush {
		return wire.HostPrefix + branch, true
	}
	return "", false
}

// remoteHead is the remote's HEAD as a full ref, as last told by the remote,
// else as it was when the box was made.
func (g *gate) remoteHead() (string, error) {
	prefix := seedPrefix(g.repo.Remote)
	head, err := storedTarget(g.h.home.Seed(g.repo.Key), prefix+"HEAD")
	if err != nil {
		return "", fmt.Errorf("read the remote's HEAD: %w", err)
	}
	if head != "" {
		return "refs/" + strings.TrimPrefix(head, prefix), nil
	}
	if g.repo.DefaultBranch == "" {
		return "", nil
	}
	return g.repo.DefaultBranch.Ref(), nil
}

// slot waits until the box has few transfers enough.
func (g *gate) slot(ctx context.Context) (free func(), err error) {
	select {
	case g.access.serving <- struct{}{}:
		return func() { <-g.access.serving }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the box's other transfers: %w", ctx.Err())
	}
}

// Serve implements relay.Gate.
func (g *gate) Serve(ctx context.Context, protocol string, body io.Reader, out io.Writer) error {
	free, err := g.slot(ctx)
	if err != nil {
		return err
	}
	defer free()
	cmd := g.in("upload-pack", "--stateless-rpc", "--strict", g.dir)
	cmd.gitDir = "" // upload-pack takes the path itself
	// Whatever is in the gate or its seed, the box may have.
	cmd.config = append(cmd.config, "uploadpack.allowAnySHA1InWant=true")
	cmd.env = slices.Clone(sealed)
	if protocol == "version=1" || protocol == "version=2" {
		cmd.env = append(cmd.env, "GIT_PROTOCOL="+protocol)
	}
	cmd.stdin, cmd.limits, cmd.deadline = body, &serveBounds, transfer
	if err := g.h.run.pipe(ctx, cmd, out); err != nil {
		return fmt.Errorf("serve a fetch: %w", err)
	}
	return nil
}

// rejected is an error whose text the box may read.
func rejected(format string, args ...any) error {
	return fmt.Errorf("%w: %w", relay.ErrRejected, fmt.Errorf(format, args...))
}
