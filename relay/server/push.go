package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/redlist"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/githttp"
	"github.com/madarco/agentbox/relay/store"
)

const methodPush = "git.push"

// pushRequest is exactly what is decided, approved and run. Its digest is the
// approval's.
type pushRequest struct {
	Repo    string             `json:"repo"`
	URL     string             `json:"url"`
	Updates []policy.RefUpdate `json:"updates"`
	Atomic  bool               `json:"atomic"`
	// CI is the digest of the files of CI that a yes to this push agrees to.
	CI string `json:"ci,omitempty"`
}

// order is a push whose commits are in the gate.
type order struct {
	box       core.Box
	repo      core.Repo
	gate      relay.Gate
	updates   []policy.RefUpdate
	atomic    bool
	requestID string
	// operator is set when the user pushes: nobody needs to be asked then.
	operator string
}

// push decides about a push and carries it out. The results are those of the
// updates, in order.
func (s *Server) push(ctx context.Context, o order, tell say) (wire.Envelope, []githttp.Result, error) {
	j, err := s.judge(ctx, o)
	if err != nil {
		return wire.Envelope{}, nil, err
	}
	return s.carry(ctx, o, j, tell)
}

// carry carries a judged push to its end.
func (s *Server) carry(ctx context.Context, o order, j job, tell say) (wire.Envelope, []githttp.Result, error) {
	request := j.request.(pushRequest)
	var results []githttp.Result
	j.do = func(ctx context.Context, started func(int) error) store.Outcome {
		tell("agentbox: " + j.message)
		var out store.Outcome
		out, results = s.send(ctx, o.box, o.gate, request, started)
		return out
	}
	env, err := s.perform(ctx, j, tell)
	if err == nil && results == nil {
		results = allAlike(env, len(o.updates))
	}
	return env, results, err
}

// judge finds the facts and makes the job.
func (s *Server) judge(ctx context.Context, o order) (job, error) {
	url, err := o.gate.RemoteURL(ctx)
	if err != nil {
		return job{}, err
	}
	request := pushRequest{Repo: o.repo.Key, URL: url, Updates: o.updates, Atomic: o.atomic}
	j := job{
		box: o.box, repo: o.repo, method: methodPush, requestID: o.requestID, actor: actorPolicy,
		push: &wire.PushApproval{RepoKey: o.repo.Key, Project: o.repo.WorkTree, Remote: o.repo.Remote, RemoteURL: url, Atomic: o.atomic},
	}
	for _, u := range o.updates {
		f, err := o.gate.Facts(ctx, u)
		if err != nil {
			return job{}, err
		}
		if f.CI.Agreed, err = s.ci.holds(o.repo.Key, f.CI.Digest); err != nil {
			s.log.Warn("read which CI the user has agreed to", "err", err)
		}
		d := s.decide(o, u, f)
		if d.Verdict == policy.Ask && f.CI.Unasked() {
			request.CI = f.CI.Digest
		}
		j.decision = j.decision.Stronger(d)
		if j.decision.Reason == "" {
			j.decision.Reason = d.Reason
		}
		j.push.Updates = append(j.push.Updates, wire.PushedRef{RefUpdate: u, Facts: f, Reason: d.Reason})
	}
	if url != o.repo.RemoteURL && o.operator == "" {
		j.decision = j.decision.Stronger(s.settings(o.box).Person("the remote's address is not the one that it was when the box was made"))
	}
	if o.operator != "" {
		j.actor = o.operator
	}
	j.request, j.message = request, pushMessage(j.push)
	return j, nil
}

// decide is the policy's decision about one update, in the light of who asks
// and of what the user has set.
func (s *Server) decide(o order, u policy.RefUpdate, f policy.Facts) policy.Decision {
	d := policy.Push(o.repo, u, f, s.settings(o.box))
	if o.operator != "" && policy.CheckRef(u).Verdict != policy.Deny {
		return policy.Decision{Verdict: policy.Allow, Reason: "the user's own command"}
	}
	return d
}

// pushMessage is the one line that the user decides by, made of facts.
func pushMessage(p *wire.PushApproval) string {
	parts := make([]string, 0, len(p.Updates))
	for _, u := range p.Updates {
		parts = append(parts, updateMessage(u))
	}
	return fmt.Sprintf("push %s to %s %s", strings.Join(parts, ", "), p.Remote, core.Untrusted(p.RemoteURL).Quote())
}

func updateMessage(u wire.PushedRef) string {
	short := func(id core.ObjectID) string { return string(id[:min(7, len(id))]) }
	name, what := strings.TrimPrefix(u.Ref, "refs/heads/"), short(u.Old)+".."+short(u.New)
	if tag, ok := strings.CutPrefix(u.Ref, "refs/tags/"); ok {
		name = "tag " + tag
	}
	switch {
	case u.Old.IsZero():
		name, what = "new "+name, "at "+short(u.New)
	case !u.Facts.FastForward:
		what = short(u.Old) + "..." + short(u.New) + " rewritten"
	}
	text := fmt.Sprintf("%s %s (%s, %s%s)", name, what, count(u.Facts.Commits, "commit"), count(u.Facts.Files, "file"), redMessage(u.Facts.RedList))
	if n := len(u.Facts.Findings); n > 0 {
		text += fmt.Sprintf(" with %s, first %s", count(n, "finding"), u.Facts.Findings[0].Rule)
	}
	if u.Facts.CI.Unasked() {
		text += fmt.Sprintf("; CI would run: %s, asked once", count(u.Facts.CI.Count, "file"))
	}
	return text
}

// redMessage names the classes of the red list that an update hits.
func redMessage(groups []redlist.Group) string {
	if len(groups) == 0 {
		return ""
	}
	what := make([]string, len(groups))
	for i, g := range groups {
		what[i] = g.What
	}
	return "; changes " + strings.Join(what, ", ")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// send runs exactly the request, from the gate.
func (s *Server) send(ctx context.Context, box core.Box, gate relay.Gate, r pushRequest, started func(int) error) (store.Outcome, []githttp.Result) {
	s.agreeToCI(box, r)
	pushed, err := gate.Push(ctx, relay.PushRequest{URL: r.URL, Updates: r.Updates, Atomic: r.Atomic}, started)
	if err != nil {
		out := failed(s.explain(box.ID, err))
		return out, allAlike(out.Envelope, len(r.Updates))
	}
	results := make([]githttp.Result, len(r.Updates))
	var done, refused []string
	for i, u := range r.Updates {
		status, reason := refOutcome(u, pushed)
		if results[i].Reason = reason; reason != "" {
			refused = append(refused, u.Ref+": "+reason)
		} else {
			done = append(done, status)
		}
	}
	out := store.Outcome{Summary: strings.Join(append(done, refused...), "; ")}
	for _, line := range done {
		out.Envelope.Stdout += line + "\n"
	}
	if len(refused) > 0 {
		out.Failed, out.Envelope.ExitCode = true, wire.ExitFailed
		out.Envelope.Stderr = strings.Join(refused, "\n") + "\n"
	}
	return out, results
}

// refOutcome is what the remote said about one update: a line of ours about
// what was done, or the reason why not.
func refOutcome(u policy.RefUpdate, pushed relay.PushResult) (done, reason string) {
	for _, r := range pushed.Refs {
		if r.Ref != u.Ref {
			continue
		}
		switch {
		case r.Status == '=':
			return "up to date " + u.Ref, ""
		case r.Status != '!' && u.Old.IsZero():
			return fmt.Sprintf("pushed %s, new at %s", u.Ref, u.New.Short()), ""
		case r.Status != '!':
			return fmt.Sprintf("pushed %s %s..%s", u.Ref, u.Old.Short(), u.New.Short()), ""
		case strings.Contains(string(r.Detail), "stale info"):
			return "", "somebody else has moved it on the remote; fetch, and push again"
		}
		return "", "the remote says " + r.Detail.Quote()
	}
	return "", "the remote said nothing about it: " + pushed.Output.Quote()
}

// allAlike gives every update the outcome of the envelope: its first line of
// stderr is the reason.
func allAlike(env wire.Envelope, n int) []githttp.Result {
	results := make([]githttp.Result, n)
	if env.ExitCode == wire.ExitOK {
		return results
	}
	reason, _, _ := strings.Cut(env.Stderr, "\n")
	for i := range results {
		results[i].Reason = reason
	}
	return results
}

// errNothing: the box has handed in no commit of the branch.
var errNothing = errors.New("nothing of the branch has landed yet")

// pushLanded pushes what the box has handed in of a branch: the form of a push
// that brings no pack.
func (s *Server) pushLanded(ctx context.Context, o order, branch core.BranchName, force, dryRun bool) (wire.Envelope, error) {
	if err := s.refresh(ctx, o.box, o.repo, o.gate, o.operator); err != nil {
		return refusal(wire.ExitFailed, s.explain(o.box.ID, err)), nil
	}
	u, err := landedUpdate(ctx, o.gate, branch)
	if errors.Is(err, errNothing) {
		return refusal(wire.ExitFailed, fmt.Sprintf("nothing of %s has landed yet; commit in the box first", branch)), nil
	} else if err != nil {
		return wire.Envelope{}, err
	}
	if u.Old == u.New {
		return wire.Envelope{Stdout: "up to date " + u.Ref + "\n"}, nil
	}
	o.updates = []policy.RefUpdate{u}
	j, err := s.judge(ctx, o)
	if err != nil {
		return refusal(wire.ExitFailed, s.explain(o.box.ID, err)), nil
	}
	if !j.push.Updates[0].Facts.FastForward && branch != o.repo.Branch && !force {
		return refusal(wire.ExitFailed, fmt.Sprintf("%s on the remote is not an ancestor of what has landed; fetch and merge in the box, or force", branch)), nil
	}
	if dryRun {
		return wire.Envelope{Stdout: fmt.Sprintf("would %s (%s)\n", j.message, j.decision.Verdict)}, nil
	}
	env, _, err := s.carry(ctx, o, j, func(string) {})
	return env, err
}

// landedUpdate is the update that brings the remote's branch to what landed.
func landedUpdate(ctx context.Context, gate relay.Gate, branch core.BranchName) (policy.RefUpdate, error) {
	refs, err := gate.Refs(ctx, true)
	if err != nil {
		return policy.RefUpdate{}, err
	}
	u := policy.RefUpdate{Ref: branch.Ref()}
	for _, ref := range refs.List {
		switch ref.Name {
		case branch.Ref():
			u.Old = ref.OID
		case wire.LandingPrefix + string(branch):
			u.New = ref.OID
		}
	}
	if u.New.IsZero() {
		return u, errNothing
	}
	if u.Old == "" {
		u.Old = core.ZeroID(len(u.New))
	}
	return u, nil
}
