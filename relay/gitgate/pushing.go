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
	"github.com/madarco/agentbox/core/capped"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay"
)

// RemoteURL implements relay.Gate. User information is left out.
func (g *gate) RemoteURL(ctx context.Context) (string, error) {
	address, err := g.remoteAddress(ctx, true)
	return stripUser(address), err
}

// remoteAddress is where the user's own git would push to, or fetch from.
func (g *gate) remoteAddress(ctx context.Context, push bool) (string, error) {
	if g.repo.Remote == "" {
		return "", relay.ErrNoRemote
	}
	user, err := g.user()
	if err != nil {
		return "", err
	}
	return g.h.remoteURL(ctx, g.h.theirs(user), g.repo.WorkTree, g.repo.Remote, push)
}

// passed are the user's settings that reach a remote on their behalf; per-URL
// variants of credential and http are among them. No other setting of theirs
// counts: the gate is not their repository.
func passed(key string) bool {
	switch {
	case strings.HasPrefix(key, "credential."), strings.HasPrefix(key, "http."), strings.HasPrefix(key, "protocol."):
		return true
	case key == "core.sshcommand", key == "core.askpass", key == "core.gitproxy", key == "ssh.variant":
		return true
	}
	return false
}

// remoteName is what the remote is called in the environment of one command.
// Its address stands in the environment too: it may hold a secret.
const remoteName = "agentbox"

// onRemote is a command in a repository of ours that talks to the remote with
// the user's own settings. Those come from the user's repository when it is
// ours to trust, so that its includes and per-folder settings count; when we
// act for another account, only from our own configuration.
func (g *gate) onRemote(ctx context.Context, dir, address string, args ...string) (command, error) {
	user, err := g.user()
	if err != nil {
		return command{}, err
	}
	list := g.h.theirs(user, "config", "--includes", "-z", "--list")
	us := user.owner
	if us.as != nil {
		us = ourselves()
		list = command{args: list.args, env: us.environment(), deadline: quick}
	}
	out, err := g.h.run.run(ctx, list)
	if err != nil {
		return command{}, err
	}
	var settings [][2]string
	if os.Getenv("GIT_SSH") == "" {
		// There is nobody at a terminal; a setting of the user's replaces it.
		settings = append(settings, [2]string{"core.sshCommand", "ssh -o BatchMode=yes"})
	}
	for key, value := range pairs(out) {
		if proxy, ok := between(key, "remote."+string(g.repo.Remote)+".", ""); ok && strings.HasPrefix(proxy, "proxy") {
			settings = append(settings, [2]string{"remote." + remoteName + "." + proxy, value})
		} else if passed(key) {
			settings = append(settings, [2]string{key, value})
		}
	}
	settings = append(settings, [2]string{"remote." + remoteName + ".url", address})
	cmd := g.h.ours(dir, args...)
	cmd.env = append(us.environment(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_NO_REPLACE_OBJECTS=1")
	cmd.env = append(cmd.env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(settings)))
	for i, s := range settings {
		cmd.env = append(cmd.env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	cmd.deadline = network
	return cmd, nil
}

// Push implements relay.Gate.
func (g *gate) Push(ctx context.Context, req relay.PushRequest, started func(pid int) error) (relay.PushResult, error) {
	address, err := g.remoteAddress(ctx, true)
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
	cmd, err := g.onRemote(ctx, g.dir, address, args...)
	if err != nil {
		return relay.PushResult{}, err
	}
	cmd.config = append(cmd.config, "push.followTags=false", "push.useForceIfIncludes=false")
	cmd.started = started
	result, err := g.push(ctx, cmd)
	if err != nil {
		return result, err
	}
	g.follow(ctx, req.Updates, result)
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
// the seed or the gate and in the user's repository. The push has happened
// whatever comes of it, and the next fetch does the same.
func (g *gate) follow(ctx context.Context, updates []policy.RefUpdate, result relay.PushResult) {
	for _, u := range updates {
		for _, r := range result.Refs {
			if r.Ref == u.Ref && bytes.IndexByte([]byte(" +*="), r.Status) >= 0 {
				_ = g.followHere(ctx, u)
				_ = g.followUser(ctx, u)
			}
		}
	}
}

// followHere moves the seed's ref, or for a box's own branch, which other
// boxes do not see, the gate's.
func (g *gate) followHere(ctx context.Context, u policy.RefUpdate) error {
	if branch, ok := strings.CutPrefix(u.Ref, "refs/heads/"+core.BranchPrefix); ok {
		return g.h.moveRefs(ctx, g.h.ours(g.dir), g.repo.ObjectFormat, []change{{refRemote + core.BranchPrefix + branch, u.New, anyValue}})
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
func (g *gate) followUser(ctx context.Context, u policy.RefUpdate) error {
	branch, ok := strings.CutPrefix(u.Ref, "refs/heads/")
	if !ok {
		return nil
	}
	user, err := g.user()
	if err != nil {
		return err
	}
	tracking := "refs/remotes/" + string(g.repo.Remote) + "/"
	specs, err := g.h.run.run(ctx, g.h.theirs(user, "config", "--get-all", "remote."+string(g.repo.Remote)+".fetch"))
	if err != nil || !strings.Contains("\n"+string(specs), "\n+refs/heads/*:"+tracking+"*\n") {
		return err
	}
	old, err := g.userCommit(ctx, user, tracking+branch)
	if err != nil || old == u.New {
		return err
	}
	_, err = g.deliver(ctx, user, policy.RefUpdate{Ref: tracking + branch, Old: old, New: u.New})
	return err
}
