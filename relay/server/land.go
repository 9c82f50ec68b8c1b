package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/budget"
	"github.com/madarco/agentbox/relay/githttp"
	"github.com/madarco/agentbox/relay/store"
)

const methodLand = "git.land"

// landRequest moves the user's branch to a commit that is in the gate. Agreed
// and Old are set on what a person is asked about, see relay.LandRequest.
type landRequest struct {
	Repo   string          `json:"repo"`
	Branch core.BranchName `json:"branch"`
	Tip    core.ObjectID   `json:"tip"`
	Agreed bool            `json:"agreed,omitempty"`
	Old    core.ObjectID   `json:"old,omitempty"`
}

// landingBranch is the branch that a ref hands in, if it is a landing ref.
func landingBranch(ref string) (core.BranchName, bool) {
	name, ok := strings.CutPrefix(ref, wire.LandingPrefix)
	return core.BranchName(name), ok
}

// checkLanding refuses a hand-in that is never taken.
func checkLanding(repo core.Repo, branch core.BranchName, u policy.RefUpdate) policy.Decision {
	if _, err := core.ParseBranchName(string(branch)); err != nil {
		return policy.Decision{Verdict: policy.Deny, Reason: err.Error()}
	}
	switch {
	case u.New.IsZero():
		return policy.Decision{Verdict: policy.Deny, Reason: "what has landed can't be taken back from a box"}
	case !policy.IsSanctioned(repo, branch):
		return policy.Decision{Verdict: policy.Deny, Reason: string(branch) + " is not the box's branch, so it does not land; push it, or ask the user to move the box to it"}
	}
	return policy.Decision{Verdict: policy.Allow, Reason: "the box's branch lands"}
}

// land moves the user's branch to an imported commit.
func (s *Server) land(ctx context.Context, o order, branch core.BranchName, tip core.ObjectID) (wire.Envelope, error) {
	request := landRequest{Repo: o.repo.Key, Branch: branch, Tip: tip}
	j := job{
		box: o.box, repo: o.repo, method: methodLand, requestID: o.requestID, actor: actorPolicy, request: request,
		decision: checkLanding(o.repo, branch, policy.RefUpdate{New: tip}),
		do: func(ctx context.Context, _ func(int) error) store.Outcome {
			return s.moveBranch(ctx, o.box, o.repo, o.gate, request)
		},
	}
	if o.operator != "" {
		j.actor = o.operator
	}
	return s.perform(ctx, j, func(string) {})
}

// moveBranch lands, and puts the outcome into words. What takes a person it asks
// about, and leaves to the answer.
func (s *Server) moveBranch(ctx context.Context, box core.Box, repo core.Repo, gate relay.Gate, r landRequest) store.Outcome {
	metered, meter := budget.Measure(ctx)
	l, err := gate.Land(metered, relay.LandRequest{Branch: r.Branch, Tip: r.Tip, Agreed: r.Agreed, Old: r.Old})
	if spent := s.ledger.Add(box.ID, 0, meter.CPU()); spent != nil {
		s.log.Error("book a landing", "box", box.ID, "err", spent)
	}
	if err == nil && (l.Status == wire.LandedHeld || l.Status == wire.LandedDiverged) {
		var asked string
		asked, err = s.askToLand(ctx, order{box: box, repo: repo, gate: gate}, l)
		l.Detail += "; " + asked
	}
	if err == nil && l.Here() {
		_, err = s.withdraw(ctx, box.ID, repo.Key, r.Branch, never)
	}
	if err != nil {
		return failed(s.explain(box.ID, err))
	}
	text := fmt.Sprintf("%s %s %s", l.Status, l.Branch, l.New.Short())
	if l.Detail != "" {
		text += ": " + l.Detail
	}
	if l.Here() {
		return succeeded(text)
	}
	return failed(text)
}

// landAll lands the updates of one hand-in, whose commits are in the gate.
func (s *Server) landAll(ctx context.Context, o order) ([]githttp.Result, error) {
	results := make([]githttp.Result, len(o.updates))
	for i, u := range o.updates {
		branch, _ := landingBranch(u.Ref)
		env, err := s.land(ctx, o, branch, u.New)
		if err != nil {
			return nil, err
		}
		results[i] = allAlike(env, 1)[0]
	}
	return results, nil
}
