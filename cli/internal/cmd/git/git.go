// Package git is the command `agentbox git`: the user's git work on a box.
//
// Invariants:
//   - What runs in the box are command lines of ours around names that were
//     validated; what it prints is the box's text and shown as such.
//   - Which branch a box may push and land is decided by the user's command
//     line, never by what the box reports.
package git

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/cmd/land"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/core"
)

// New is the command with its subcommands.
func New(f *factory.Factory, keeper func() (Keeper, error), landing func(context.Context, *land.Options) error, push func(context.Context, *PushOptions) error, inBox func(context.Context, *Options) error) *cli.Command {
	c := &cli.Command{
		Name:     "git",
		Usage:    "push what a box has landed, run git in it, put it on a branch",
		Commands: []*cli.Command{newPush(f, landing, push)},
	}
	for _, op := range []Op{Status, Fetch, Pull, Checkout, Branch} {
		c.Commands = append(c.Commands, newInBox(f, keeper, op, inBox))
	}
	return c
}

// repository is the box that ref means, with the repository that it works on.
func repository(find func(ref string) (core.Box, error), ref string) (core.Box, core.Repo, error) {
	box, err := find(ref)
	if err != nil {
		return box, core.Repo{}, err
	}
	repo, ok := box.Root()
	if !ok {
		return box, repo, fail.New(fail.Usage, "make its project a repository, and create a box anew", "box %s works on no repository", box.Name)
	}
	return box, repo, nil
}
