package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/forge"
	"github.com/madarco/agentbox/ctl/gitcmd"
	"github.com/madarco/agentbox/ctl/relayclient"
)

func init() { shims["gh"] = runGh }

// runGh does what gh would, through the host.
func runGh(ctx context.Context, args []string, s streams) int {
	c, err := forge.Parse(args, forge.Box{
		Open: func(name string) (io.ReadCloser, error) {
			if name == "-" {
				return io.NopCloser(s.in), nil
			}
			return os.Open(name) // the caller's own file, with the caller's rights
		},
		Commits: func(base string) (string, []string, error) { return boxCommits(ctx, base) },
	})
	switch {
	case err != nil:
		return fail(s, wire.ExitUsage, err)
	case c.Text != "":
		fmt.Fprint(s.out, c.Text)
		return wire.ExitOK
	case c.Clone != nil:
		return cloneThroughHost(ctx, c.Clone, s)
	}
	return askForge(ctx, c, s)
}

func askForge(ctx context.Context, c forge.Command, s streams) int {
	client, err := relayclient.New(func(text string) { fmt.Fprintf(s.err, "agentbox-ctl: %s\n", text) })
	if err != nil {
		return fail(s, wire.ExitRefused, err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	answer, err := client.Call(ctx, c.Method, wire.ForgeParams{Path: dir, Endpoint: c.Endpoint, Args: c.Args})
	if err != nil {
		return fail(s, wire.ExitTransport, err)
	}
	fmt.Fprint(s.out, answer.Stdout)
	fmt.Fprint(s.err, answer.Stderr)
	return answer.ExitCode
}

func cloneThroughHost(ctx context.Context, args []string, s streams) int {
	git, err := gitcmd.Path()
	if err != nil {
		return fail(s, wire.ExitNotFound, err)
	}
	cmd := exec.CommandContext(ctx, git, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.in, s.out, s.err
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	if err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	return wire.ExitOK
}

// boxCommits are what the checked-out branch has beyond the remote's base.
func boxCommits(ctx context.Context, base string) (branch string, messages []string, err error) {
	if base == "" {
		base = "HEAD"
	}
	if branch, err = gitLine(ctx, "", "symbolic-ref", "--short", "HEAD"); err != nil {
		return "", nil, err
	}
	out, err := gitLine(ctx, "", "log", "--reverse", "--max-count=250", "--format=%B%x00", "refs/remotes/origin/"+base+"..HEAD", "--")
	if err != nil {
		return "", nil, err
	}
	for message := range strings.SplitSeq(out, "\x00") {
		if message = strings.TrimSpace(message); message != "" {
			messages = append(messages, message)
		}
	}
	return branch, messages, nil
}
