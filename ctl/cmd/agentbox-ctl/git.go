package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/control"
	"github.com/madarco/agentbox/ctl/gitcmd"
	"github.com/madarco/agentbox/ctl/relayclient"
)

// gitCall is a parsed `agentbox-ctl git …`.
type gitCall struct {
	gitcmd.Options
	hostOnly bool
	as       core.BranchName
	force    bool
}

var errUsage = errors.New("usage: agentbox-ctl git push|pull|fetch [--remote r] [--cwd d] [--host-only [--as b] [--force]] [git's own arguments]")

// parseGit takes our own flags out; all others, and what follows "--", are git's.
func parseGit(args []string) (gitCall, error) {
	var c gitCall
	ops := []gitcmd.Op{gitcmd.Push, gitcmd.Pull, gitcmd.Fetch}
	if len(args) == 0 || !slices.Contains(ops, gitcmd.Op(args[0])) {
		return c, errUsage
	}
	c.Op = gitcmd.Op(args[0])
	var as string
	valued := map[string]*string{"--remote": &c.Remote, "--cwd": &c.Dir, "--as": &as}
	for rest := args[1:]; len(rest) > 0; rest = rest[1:] {
		name, value, glued := strings.Cut(rest[0], "=")
		switch dst := valued[name]; {
		case rest[0] == "--":
			c.Args, rest = append(c.Args, rest[1:]...), rest[:1]
		case dst != nil && glued:
			*dst = value
		case dst != nil && len(rest) > 1:
			*dst, rest = rest[1], rest[1:]
		case dst != nil:
			return c, fmt.Errorf("%s needs a value", name)
		case rest[0] == "--host-only":
			c.hostOnly = true
		default:
			c.Args = append(c.Args, rest[0])
		}
	}
	return c, c.check(as)
}

func (c *gitCall) check(as string) error {
	if !c.hostOnly {
		if as != "" {
			return errors.New("--as goes with --host-only")
		}
		return nil
	}
	if c.Op != gitcmd.Push || c.Remote != "" {
		return errors.New("--host-only goes with push, and not with --remote")
	}
	var other []string
	for _, arg := range c.Args {
		if arg == "--force" || arg == "-f" {
			c.force = true
		} else {
			other = append(other, arg)
		}
	}
	if c.Args = other; len(other) > 0 {
		return fmt.Errorf("--host-only takes no %s", core.Untrusted(other[0]).Quote())
	}
	if as == "" {
		return nil
	}
	name, err := core.ParseBranchName(as)
	c.as = name
	return err
}

func runGit(ctx context.Context, args []string, s streams) int {
	if len(args) > 0 && args[0] == "pr" {
		return runGh(ctx, args, s)
	}
	call, err := parseGit(args)
	if err != nil {
		return fail(s, wire.ExitBadRequest, err)
	}
	if call.hostOnly {
		return pushToHost(ctx, call, s)
	}
	call.Stdin, call.Stdout, call.Stderr = s.in, s.out, s.err
	return gitcmd.Run(ctx, call.Options)
}

// pushToHost asks the host to put the current branch into the user's
// repository, under another name if asked, and to leave the remote alone.
func pushToHost(ctx context.Context, call gitCall, s streams) int {
	client, err := relayclient.New(func(text string) { fmt.Fprintf(s.err, "agentbox-ctl: %s\n", text) })
	if err != nil {
		return fail(s, wire.ExitRefused, err)
	}
	params, err := hostParams(ctx, call)
	if err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	// The host can only put there what it has. A box whose daemon is down has
	// perhaps landed before; the host says if it lacks the commit.
	_ = control.Call(ctx, control.DefaultSocket, control.Request{Op: control.Land}, nil)
	answer, err := client.Call(ctx, "git.push", params)
	if err != nil {
		return fail(s, wire.ExitTransport, err)
	}
	fmt.Fprint(s.out, answer.Stdout)
	fmt.Fprint(s.err, answer.Stderr)
	return answer.ExitCode
}

// hostParams names the current branch and its commit, so that what is asked
// for stays what it was while a person thinks.
func hostParams(ctx context.Context, call gitCall) (wire.GitParams, error) {
	dir, err := filepath.Abs(call.Dir)
	if err != nil {
		return wire.GitParams{}, err
	}
	params := wire.GitParams{Path: dir, HostOnly: true, As: string(call.as), Force: call.force}
	if params.Branch, err = gitLine(ctx, dir, "symbolic-ref", "--short", "-q", "HEAD"); err != nil {
		return params, fmt.Errorf("find the current branch of %s: %w; check a branch out first", dir, err)
	}
	if params.OID, err = gitLine(ctx, dir, "rev-parse", "-q", "--verify", "HEAD^{commit}"); err != nil {
		return params, fmt.Errorf("find the commit of %s: %w; commit something first", params.Branch, err)
	}
	return params, nil
}

func gitLine(ctx context.Context, dir string, args ...string) (string, error) {
	git, err := gitcmd.Path()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, git, append([]string{"-C", dir}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}
