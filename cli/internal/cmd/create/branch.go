package create

import (
	"context"
	"errors"
	"fmt"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/boxes"
	"github.com/madarco/agentbox/cli/internal/cmd/git"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/relay/gitgate"
	"github.com/madarco/agentbox/sandbox-core/workspace"
)

// anyBranch is asked about where the branch of the box has no part yet.
const anyBranch = core.BranchName(core.BranchPrefix + "new")

// open opens the project where the box shall start.
func (o *Options) open(ctx context.Context) (boxes.Project, error) {
	at := workspace.Options{Include: o.Include, From: o.From}
	if o.From != "" {
		if err := args.Revision(o.From); err != nil {
			return nil, err
		}
	}
	if o.UseBranch == "" {
		return o.Open(ctx, o.Workspace, at)
	}
	branch, err := core.ParseBranchName(o.UseBranch)
	if err != nil {
		return nil, err
	}
	project, err := o.Open(ctx, o.Workspace, at)
	if err != nil {
		return nil, err
	}
	box := core.Box{Repos: project.Repos(anyBranch)}
	repo, ok := box.Root()
	if !ok {
		return nil, fmt.Errorf("put a box on %s: %w", branch, workspace.ErrNoRepository)
	}
	k, err := o.Keeper()
	if err != nil {
		return nil, err
	}
	if err := k.MayPutOn(box, branch); err != nil {
		return nil, err
	}
	if repo.BaseBranch == branch { // the user is on it: their work goes along
		return project, nil
	}
	at.From = string(branch)
	project, err = o.Open(ctx, o.Workspace, at)
	if errors.Is(err, gitgate.ErrNoCommit) && repo.Remote != "" {
		at.From = string(repo.Remote) + "/" + string(branch)
		return o.Open(ctx, o.Workspace, at)
	}
	return project, err
}

// putOn puts the new box on the branch of --use-branch. Only naming it to `git
// checkout` lets pushes to the remote's default branch go unasked, and so
// where that one is not known.
func (o *Options) putOn(ctx context.Context, box core.Box) error {
	repo, _ := box.Root()
	asks := repo.Remote != "" && (repo.DefaultBranch == "" || string(repo.DefaultBranch) == o.UseBranch)
	words := *o.Streams
	words.Out = words.ErrOut // data is the box alone
	err := git.Run(ctx, &git.Options{
		Streams: &words, Provider: o.Provider, Keeper: o.Keeper, Op: git.Checkout, Branch: o.UseBranch, Unbooked: asks,
		Box: func(string) (core.Box, error) { return box, nil },
	})
	next := fmt.Sprintf("agentbox git checkout %s %s", box.Name, o.UseBranch)
	var exit fail.Exit
	if errors.As(err, &exit) {
		err = fmt.Errorf("git in the box ended with %d", int(exit))
	}
	if err != nil {
		return fail.New(fail.Failed, next, "box %s is made, but not on %s: %w", box.Name, o.UseBranch, err)
	}
	if asks {
		o.Streams.Note("pushes to %s ask, as it is or may be the remote's default branch; they go unasked after: %s", o.UseBranch, next)
	}
	return nil
}
