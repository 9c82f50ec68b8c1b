package gitgate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/relay"
)

// Refresh implements relay.Gate. Boxes of one project that ask at the same
// time share one look at the remote.
func (g *gate) Refresh(ctx context.Context) error {
	if err := g.refreshHost(ctx); err != nil {
		return fmt.Errorf("look at the user's branch: %w", err)
	}
	if g.repo.Remote == "" {
		return nil
	}
	s, err := g.settings(ctx)
	if err != nil {
		return err
	}
	address, err := g.remoteAddress(s, false)
	if err != nil {
		return err
	}
	key := strings.Join([]string{g.repo.Key, string(g.repo.Remote), address}, "\x00")
	remote, err := g.h.fetches.do(ctx, key, func(ctx context.Context) (remoteRefs, error) { return g.fetchSeed(ctx, s, address) })
	if err == nil {
		err = g.fetchOwn(ctx, s, address, remote)
	}
	if err == nil {
		err = g.copyShallow(g.dir)
	}
	if err != nil {
		return fmt.Errorf("fetch from %s: %w", g.repo.Remote, err)
	}
	return nil
}

// refreshHost shows the box what the user's branch is now.
func (g *gate) refreshHost(ctx context.Context) error {
	if g.repo.BaseBranch == "" {
		return nil
	}
	user, err := g.user()
	if err != nil {
		return err
	}
	ids, err := g.userCommits(ctx, user, g.repo.BaseBranch.Ref())
	if err != nil || ids[0] == "" {
		return err
	}
	now := ids[0]
	name := refHost + string(g.repo.BaseBranch)
	old, err := g.resolve(ctx, name)
	if err != nil || old == now {
		return err
	}
	end, err := g.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return g.adopt(ctx, user, g.dir, []change{{name, now, anyValue}})
}

// remoteRefs is what a remote says that it has.
type remoteRefs struct {
	head string // full ref, empty if unknown
	refs map[string]core.ObjectID
}

// listRemote asks the remote for its branches and tags.
func (g *gate) listRemote(ctx context.Context, s *remoteSettings, dir, address string) (remoteRefs, error) {
	out := remoteRefs{refs: map[string]core.ObjectID{}}
	cmd := g.onRemote(s, dir, address, "ls-remote", "--symref", "--", remoteName, "HEAD", "refs/heads/*", "refs/tags/*")
	cmd.deadline = capture // a list is short
	text, err := g.h.run.run(ctx, cmd)
	if err != nil {
		return out, remoteError(err)
	}
	for line := range strings.Lines(string(text)) {
		id, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if target, symref := strings.CutPrefix(id, "ref: "); symref && name == "HEAD" {
			out.head = target
			continue
		}
		if oid, err := core.ParseObjectID(id); ok && err == nil && listed(name) {
			out.refs[name] = oid
		}
	}
	return out, nil
}

// listed tells whether a ref of the remote may stand anywhere on the host:
// a remote's names are not ours, so they must be names that we understand.
func listed(name string) bool {
	if branch, ok := strings.CutPrefix(name, "refs/heads/"); ok {
		_, err := core.ParseBranchName(branch)
		return err == nil
	}
	tag, ok := strings.CutPrefix(name, "refs/tags/")
	_, err := core.ParseTagName(tag)
	return ok && err == nil // "^{}" lines are none
}

func remoteError(err error) error {
	var failed *gitError
	if errors.As(err, &failed) {
		return fmt.Errorf("%w: %w", relay.ErrRemote, failed)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: it did not answer in time: %w", relay.ErrRemote, err)
	}
	return err
}

// fetchSeed brings the seed to what the remote has. Boxes' own branches stay
// out of it. The transfer needs no lock: objects only ever come in, and the
// refs move in one transaction afterwards.
func (g *gate) fetchSeed(ctx context.Context, s *remoteSettings, address string) (remoteRefs, error) {
	dir := g.h.home.Seed(g.repo.Key)
	remote, err := g.listRemote(ctx, s, dir, address)
	if err != nil {
		return remote, err
	}
	have, err := g.seedRefs(ctx)
	if err != nil {
		return remote, err
	}
	current := map[string]core.ObjectID{}
	for _, r := range have {
		current[r.name] = r.oid
	}
	var fetch []string
	for name, id := range remote.refs {
		if current[name] != id && !strings.HasPrefix(name, "refs/heads/"+core.BranchPrefix) {
			fetch = append(fetch, name)
		}
	}
	if len(fetch) > 0 {
		if err := g.fetchObjects(ctx, s, dir, address, fetch); err != nil {
			return remote, err
		}
		if err := share(dir); err != nil {
			return remote, err
		}
	}
	return remote, g.settleSeed(ctx, dir, remote)
}

// oldFaults are harmless mistakes of early tools, which long histories hold
// (git-fsck(1), under FSCK MESSAGES). All else that git's checks find is refused.
var oldFaults = []string{
	"badDate", "badDateOverflow", "badEmail", "badName", "badTimezone", "missingEmail", "missingNameBeforeEmail",
	"missingSpaceBeforeDate", "missingSpaceBeforeEmail", "multipleAuthors", "zeroPaddedDate", "zeroPaddedFilemode",
}

// fetchObjects brings the objects of the named refs, and moves no ref.
func (g *gate) fetchObjects(ctx context.Context, s *remoteSettings, dir, address string, names []string) error {
	cmd := g.onRemote(s, dir, address, "fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance", "--stdin", remoteName)
	// One pack, whose mode share can set; checked as what comes from outside.
	cmd.config = append(cmd.config, "fetch.unpackLimit=1", "fetch.writeCommitGraph=false", "fetch.fsckObjects=true")
	for _, fault := range oldFaults {
		cmd.config = append(cmd.config, "fetch.fsck."+fault+"=warn")
	}
	cmd.stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
	if _, err := g.h.run.run(ctx, cmd); err != nil {
		return remoteError(err)
	}
	return nil
}

// settleSeed moves the seed's refs to what the remote said, where the objects
// have come, and keeps whatever a moved or removed ref held.
func (g *gate) settleSeed(ctx context.Context, dir string, remote remoteRefs) error {
	unlock, err := g.h.lock(ctx, g.repo.Key, true)
	if err != nil {
		return err
	}
	defer unlock()
	seed := g.h.ours(dir)
	have, err := g.seedRefs(ctx)
	if err != nil {
		return err
	}
	var wanted []core.ObjectID
	for _, id := range remote.refs {
		wanted = append(wanted, id)
	}
	arrived, err := g.h.existing(ctx, seed, wanted)
	if err != nil {
		return err
	}
	here := map[core.ObjectID]bool{}
	for _, id := range arrived {
		here[id] = true
	}
	changes := settle(seedPrefix(g.repo.Remote), have, remote, here)
	if err := g.h.moveSeed(ctx, seed, g.repo.ObjectFormat, changes); err != nil {
		return err
	}
	if branch, ok := strings.CutPrefix(remote.head, "refs/heads/"); ok && here[remote.refs[remote.head]] && !strings.HasPrefix(branch, core.BranchPrefix) {
		prefix := seedPrefix(g.repo.Remote)
		_, err := g.h.run.run(ctx, g.h.ours(dir, "symbolic-ref", prefix+"HEAD", prefix+"heads/"+branch))
		return err
	}
	return nil
}

// settle computes the transaction of settleSeed. have carries the remote's names.
func settle(prefix string, have []ref, remote remoteRefs, here map[core.ObjectID]bool) []change {
	var changes []change
	kept, current := map[core.ObjectID]bool{}, map[string]core.ObjectID{}
	for _, r := range have {
		current[r.name] = r.oid
		id, exists := remote.refs[r.name]
		if id == r.oid || exists && !here[id] {
			continue
		}
		if !kept[r.oid] {
			kept[r.oid] = true
			changes = append(changes, change{keepRef(r.oid), r.oid, anyValue})
		}
		if !exists {
			changes = append(changes, change{ref: prefix + strings.TrimPrefix(r.name, "refs/"), old: r.oid})
		}
	}
	for name, id := range remote.refs {
		if here[id] && current[name] != id && !strings.HasPrefix(name, "refs/heads/"+core.BranchPrefix) {
			changes = append(changes, change{prefix + strings.TrimPrefix(name, "refs/"), id, current[name]})
		}
	}
	return changes
}

// fetchOwn brings the gate to what the remote has on the box's own branch.
func (g *gate) fetchOwn(ctx context.Context, s *remoteSettings, address string, remote remoteRefs) error {
	name := refRemote + string(g.repo.Branch)
	id, exists := remote.refs[g.repo.Branch.Ref()]
	old, err := g.resolve(ctx, name)
	if err != nil || old == id {
		return err
	}
	end, err := g.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if !exists {
		return g.h.moveRefs(ctx, g.h.ours(g.dir), g.repo.ObjectFormat, []change{{ref: name, old: anyValue}})
	}
	have, err := g.h.existing(ctx, g.in(), []core.ObjectID{id})
	if err != nil {
		return err
	}
	if len(have) == 0 {
		if err := g.fetchObjects(ctx, s, g.dir, address, []string{g.repo.Branch.Ref()}); err != nil {
			return err
		}
	}
	return g.h.moveRefs(ctx, g.h.ours(g.dir), g.repo.ObjectFormat, []change{{name, id, anyValue}})
}

// flights lets callers who want the same thing wait for one run of it. The run
// ends early when the last of them has gone.
type flights struct {
	mu  sync.Mutex
	run map[string]*flight
}

type flight struct {
	waiting int
	cancel  context.CancelFunc
	done    chan struct{}
	refs    remoteRefs
	err     error
}

func (f *flights) do(ctx context.Context, key string, work func(context.Context) (remoteRefs, error)) (remoteRefs, error) {
	f.mu.Lock()
	if f.run == nil {
		f.run = map[string]*flight{}
	}
	fl := f.run[key]
	if fl == nil {
		fl = &flight{done: make(chan struct{})}
		f.run[key] = fl
		runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		fl.cancel = cancel
		go func() {
			defer cancel()
			fl.refs, fl.err = work(runCtx)
			f.mu.Lock()
			if f.run[key] == fl {
				delete(f.run, key)
			}
			f.mu.Unlock()
			close(fl.done)
		}()
	}
	fl.waiting++
	f.mu.Unlock()
	select {
	case <-fl.done:
		return fl.refs, fl.err
	case <-ctx.Done():
		f.mu.Lock()
		defer f.mu.Unlock()
		if fl.waiting--; fl.waiting == 0 {
			fl.cancel()
			if f.run[key] == fl {
				delete(f.run, key) // who comes now starts anew
			}
		}
		return remoteRefs{}, ctx.Err()
	}
}
