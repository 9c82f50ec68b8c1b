package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/store"
)

// hostOnly brings the box's commits into the user's repository and nowhere
// else. On the box's own branch they land by themselves, so for that this only
// makes sure. A name that the user does not have yet is theirs at once; a branch
// that they have moves after their yes, and never while it is checked out.
func (s *Server) hostOnly(ctx context.Context, c gitCall) (wire.Envelope, error) {
	if c.params.Remote != "" {
		return refusal(wire.ExitBadRequest, "hostOnly and remote exclude each other"), nil
	}
	target := c.branch
	if c.params.As != "" {
		var err error
		if target, err = core.ParseBranchName(c.params.As); err != nil {
			return refusal(wire.ExitBadRequest, err.Error()), nil
		}
	}
	own := policy.IsSanctioned(c.repo, target)
	if !own && strings.HasPrefix(string(target), core.BranchPrefix) {
		return refusal(wire.ExitRefused, fmt.Sprintf("branches below %s are those of boxes, and %s is not this one's", core.BranchPrefix, target)), nil
	}
	tip, err := handedIn(ctx, c.gate, c.branch)
	switch {
	case errors.Is(err, relay.ErrRejected):
		return refusal(wire.ExitFailed, fmt.Sprintf("nothing of %s has been handed in yet; commit first", c.branch)), nil
	case err != nil:
		return refusal(wire.ExitFailed, s.explain(c.box.ID, err)), nil
	case c.params.OID != "" && c.params.OID != string(tip):
		// A client that names the commit means that one, not what came since.
		return refusal(wire.ExitFailed, fmt.Sprintf("%s has not been handed in as %s; commit and try again", c.branch, core.Untrusted(c.params.OID).Quote())), nil
	case own:
		return s.land(ctx, c.order, target, tip)
	}
	return s.landAs(ctx, c, target, tip)
}

// landAs lands a commit of the box on another branch of the user's.
func (s *Server) landAs(ctx context.Context, c gitCall, target core.BranchName, tip core.ObjectID) (wire.Envelope, error) {
	l, err := c.gate.Look(ctx, target, tip)
	switch {
	case err != nil:
		return refusal(wire.ExitFailed, s.explain(c.box.ID, err)), nil
	case l.Status == wire.LandedUpToDate:
		return wire.Envelope{Stdout: fmt.Sprintf("%s %s %s\n", l.Status, target, tip.Short())}, nil
	case l.Status == wire.LandedCheckedOut:
		return refusal(wire.ExitFailed, fmt.Sprintf("%s stays where it is: %s", target, l.Detail)), nil
	case l.Status == wire.LandedDiverged && !c.params.Force:
		return refusal(wire.ExitFailed, fmt.Sprintf("%s is at %s, which is not in what would land; merge it in the box, or ask for it with --force", target, l.Old.Short())), nil
	case l.Status == wire.Landed && l.Old == "" && !misleads(c.repo, target):
		return s.landNew(ctx, c, target, tip)
	}
	return s.askToLandAs(ctx, c, l)
}

// misleads tells whether a new branch of this name would be taken for another:
// one of the remote's, which git finds only where there is no local one of the
// same name (gitrevisions(7)), or the default branch.
func misleads(repo core.Repo, name core.BranchName) bool {
	first, _, nested := strings.Cut(string(name), "/")
	return name == repo.DefaultBranch || nested && (first == string(repo.Remote) || slices.Contains([]string{"origin", "upstream"}, first))
}

// landNew makes a branch of the user's, unless somebody else has at this moment.
// The tree check has found nothing in the commit, or it would be held.
func (s *Server) landNew(ctx context.Context, c gitCall, target core.BranchName, tip core.ObjectID) (wire.Envelope, error) {
	request := landRequest{Repo: c.repo.Key, Branch: target, Tip: tip, Agreed: true}
	return s.perform(ctx, job{
		box: c.box, repo: c.repo, method: methodLand, requestID: c.requestID, actor: actorPolicy, request: request,
		decision: policy.Decision{Verdict: policy.Allow, Reason: "a branch that the user does not have"},
		do: func(ctx context.Context, _ func(int) error) store.Outcome {
			return s.moveBranch(ctx, c.box, c.repo, c.gate, request)
		},
	}, func(string) {})
}

// askToLandAs asks about a branch that the user has, with where it is and where
// it would go, and waits. It is the relay that lands it, at the yes.
func (s *Server) askToLandAs(ctx context.Context, c gitCall, l wire.Landing) (wire.Envelope, error) {
	if s.settings(c.box).Nobody {
		return refusal(wire.ExitDenied, fmt.Sprintf("nobody can be asked whether %s may land", l.Branch)), nil
	}
	ask, err := s.landingAsk(ctx, c.order, l)
	if err != nil {
		return refusal(wire.ExitFailed, s.explain(c.box.ID, err)), nil
	}
	in := store.Intent{BoxID: c.box.ID, Method: methodLand, RequestID: c.requestID, Digest: ask.Digest, Detail: ask.Request}
	if env, found, err := s.replay(ctx, in); found || err != nil {
		return env, err
	}
	if a, ok, err := s.untold(ctx, in); ok || err != nil {
		return s.settle(ctx, in, a, err)
	}
	a, opened, err := s.st.OpenApproval(ctx, ask)
	if err == nil && opened {
		s.event(ctx, c.box.ID, "approval-pending", map[string]string{"id": a.ID, "message": a.Message})
	}
	for err == nil && slices.Contains([]wire.ApprovalState{wire.Pending, wire.Approved, wire.Executing}, a.State) {
		a, err = store.WaitApproval(ctx, s.st, a.ID, a.State)
	}
	return s.settle(ctx, in, a, err)
}
