package gitgate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/capped"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay"
)

// Push implements relay.Gate.
func (g *gate) Push(ctx context.Context, req relay.PushRequest, started func(pid int) error) (relay.PushResult, error) {
	s, err := g.decided.or(func() (*remoteSettings, error) { return g.settings(ctx) })
	if err != nil {
		return relay.PushResult{}, err
	}
	address, err := g.remoteAddress(s, true)
	if err != nil {
		return relay.PushResult{}, err
	}
	if stripUser(address) != req.URL {
		return relay.PushResult{}, rejected("the remote's address is no longer the one that was decided on")
	}
	args := []string{"push", "--porcelain", "--no-verify", "--no-signed", "--recurse-submodules=no"}
	if req.Atomic {
		args = append(args, "--atomic")
	}
	specs := make([]string, 0, len(req.Updates))
	for _, u := range req.Updates {
		if err := pushable(u); err != nil {
			return relay.PushResult{}, err
		}
		old := string(u.Old)
		if u.Old.IsZero() {
			old = "" // only if the ref does not exist
		}
		args = append(args, "--force-with-lease="+u.Ref+":"+old)
		specs = append(specs, string(u.New)+":"+u.Ref)
	}
	args = append(append(args, "--", remoteName), specs...)
	if err := g.refusePointers(ctx, req.Updates); err != nil {
		return relay.PushResult{}, err
	}
	cmd := g.onRemote(s, g.dir, address, args...)
	cmd.config = append(cmd.config, "push.followTags=false", "push.useForceIfIncludes=false", "core.bigFileThreshold="+bigFile)
	cmd.started = started
	result, err := g.push(ctx, cmd)
	if err != nil {
		return result, err
	}
	g.follow(ctx, s, req.Updates, result)
	return result, nil
}

// pushable refuses what no decision can have allowed, so that nothing but an
// id and a validated name ever stands in a refspec.
func pushable(u policy.RefUpdate) error {
	if d := policy.CheckRef(u); d.Verdict != policy.Allow {
		return rejected("%s", d.Reason)
	}
	for _, id := range []core.ObjectID{u.New, u.Old} {
		if id == "" {
			continue
		}
		if _, err := core.ParseObjectID(string(id)); err != nil {
			return rejected("%w", err)
		}
	}
	return nil
}

// push runs the command and reads its porcelain output. A rejected ref is a
// result; an error means that nothing is known about any of them.
func (g *gate) push(ctx context.Context, cmd command) (relay.PushResult, error) {
	var result relay.PushResult
	seen := capped.Buffer{Max: stderrLimit}
	err := g.h.run.stream(ctx, cmd, func(out io.Reader) error {
		var err error
		result.Refs, err = readPorcelain(io.TeeReader(out, &seen))
		return err
	})
	result.Output = core.Untrusted(withoutUsers(seen.String()))
	var failed *gitError
	if errors.As(err, &failed) {
		result.Output += failed.stderr
		if len(result.Refs) == 0 {
			return result, fmt.Errorf("%w: %w", relay.ErrRemote, failed)
		}
		return result, nil
	}
	return result, err
}

// readPorcelain reads "<flag>\t<from>:<to>\t<summary> (<reason>)" lines, as
// git-push(1) describes them under --porcelain.
func readPorcelain(out io.Reader) ([]relay.PushedRef, error) {
	var refs []relay.PushedRef
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		f := strings.SplitN(lines.Text(), "\t", 3)
		if len(f) != 3 || len(f[0]) != 1 {
			continue // "To <url>", "Done", and what is for people
		}
		_, to, ok := strings.Cut(f[1], ":")
		if ok {
			refs = append(refs, relay.PushedRef{Ref: to, Status: f[0][0], Detail: core.Untrusted(f[2])})
		}
	}
	return refs, lines.Err()
}

// follow brings what the remote has taken into the refs that stand for it, in
// the seed or the gate at once, because the box's next push goes by them, and in
// the user's repository while the box has its answer. The push has happened
// whatever comes of it, and the next fetch does the same.
func (g *gate) follow(ctx context.Context, s *remoteSettings, updates []policy.RefUpdate, result relay.PushResult) {
	for _, u := range updates {
		for _, r := range result.Refs {
			if r.Ref == u.Ref && bytes.IndexByte([]byte(" +*="), r.Status) >= 0 {
				_ = g.followHere(ctx, u)
				g.later(ctx, func(ctx context.Context) { _ = g.followUser(ctx, s, u) })
			}
		}
	}
}

// later does something behind the caller's back, after what was left to do
// earlier in the gate, so that an older push never overtakes a newer one.
func (g *gate) later(ctx context.Context, do func(context.Context)) {
	done := make(chan struct{})
	g.h.mu.Lock()
	before := g.access.left
	g.access.left = done
	g.h.mu.Unlock()
	g.h.left.Go(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), capture)
		defer cancel()
		do(ctx)
	})
}

// Settle waits for what pushes have left to do in the user's repositories.
func (h *Host) Settle() { h.left.Wait() }

// followHere moves the seed's ref, or for a box's own branch, which other
// boxes do not see, the gate's.
func (g *gate) followHere(ctx context.Context, u policy.RefUpdate) error {
	if branch, ok := strings.CutPrefix(u.Ref, "refs/heads/"+core.BranchPrefix); ok {
		return g.h.setRefs(ctx, g.dir, g.repo.ObjectFormat, []change{{refRemote + core.BranchPrefix + branch, u.New, anyValue}})
	}
	unlock, err := g.h.lock(ctx, g.repo.Key, true)
	if err != nil {
		return err
	}
	defer unlock()
	dir := g.h.home.Seed(g.repo.Key)
	have, err := g.h.listRefs(ctx, g.h.ours(dir))
	if err != nil {
		return err
	}
	p := packing{from: g.in(), want: []core.ObjectID{u.New}}
	name := seedPrefix(g.repo.Remote) + strings.TrimPrefix(u.Ref, "refs/")
	changes := []change{{name, u.New, anyValue}}
	for _, r := range have {
		p.exclude = append(p.exclude, r.oid)
		if r.name == name && r.oid != u.New {
			changes = append(changes, change{keepRef(r.oid), r.oid, anyValue})
		}
	}
	if err := g.h.copyObjects(ctx, p, dir); err != nil {
		return err
	}
	return g.h.moveRefs(ctx, g.h.ours(dir), g.repo.ObjectFormat, changes)
}

// followUser moves refs/remotes/<remote>/<branch> in the user's repository, as
// their own push would have, if they track the remote in the usual way.
func (g *gate) followUser(ctx context.Context, s *remoteSettings, u policy.RefUpdate) error {
	branch, ok := strings.CutPrefix(u.Ref, "refs/heads/")
	if !ok {
		return nil
	}
	user, err := g.user()
	if err != nil {
		return err
	}
	remote := string(g.repo.Remote)
	tracking := "refs/remotes/" + remote + "/"
	if !slices.Contains(s.all("remote."+remote+".fetch"), "+refs/heads/*:"+tracking+"*") {
		return nil
	}
	theirs, err := g.userRefs(ctx, user, tracking+branch, u.Ref)
	old := theirs[tracking+branch]
	if err != nil || old == u.New {
		return err
	}
	move := policy.RefUpdate{Ref: tracking + branch, Old: old, New: u.New}
	if theirs[u.Ref] == u.New { // it has landed there, with all that it needs
		return g.moveTheirs(ctx, user, move)
	}
	_, err = g.deliver(ctx, user, move)
	return err
}

// userRefs reads refs of the user's repository.
func (g *gate) userRefs(ctx context.Context, user *Repository, names ...string) (map[string]core.ObjectID, error) {
	refs, whole, err := readRefFiles(user.CommonDir, names)
	if err == nil && !whole {
		refs, err = g.h.listRefs(ctx, g.h.theirs(user), names...)
	}
	out := map[string]core.ObjectID{}
	for _, r := range refs {
		out[r.name] = r.oid
	}
	return out, err
}
