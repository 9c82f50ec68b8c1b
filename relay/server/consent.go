package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/store"
)

// Commits that wait to land wait in the gate, not in a request: the box goes on
// meanwhile. So it is the relay that does what the user agrees to, at the answer
// or, where it was ended before, at its next start.

// ownWork tells whether the relay itself carries out a yes to this method.
func (s *Server) ownWork(method string) bool {
	_, offer := s.cfg.Methods[method].(relay.Offer)
	return offer || method == methodLand || method == methodBudget
}

// askToLand opens the question about a landing that takes a person, or finds
// the one that is open, and says so in a phrase. There is one question for each
// branch, which stands while the box builds on what it is about.
func (s *Server) askToLand(ctx context.Context, o order, l wire.Landing) (string, error) {
	ask, err := s.landingAsk(ctx, o, l)
	if err != nil {
		return "", err
	}
	standing, err := s.withdraw(ctx, o.box.ID, o.repo.Key, l.Branch, func(a store.Approval) (bool, error) {
		if a.Digest == ask.Digest {
			return true, nil
		}
		return s.buildsOn(ctx, o.gate, a.Land, ask.Land)
	})
	if err != nil {
		return "", err
	}
	if standing != nil && standing.Digest != ask.Digest {
		return "it builds on what waits for the user's yes: " + toApprove(standing.ID), nil
	}
	return s.openQuestion(ctx, ask)
}

// withdraw takes back the questions about a branch that are no longer the right
// ones, and returns one that is.
func (s *Server) withdraw(ctx context.Context, boxID, key string, branch core.BranchName, stands func(store.Approval) (bool, error)) (*store.Approval, error) {
	open, err := s.st.Approvals(ctx, boxID, wire.Pending)
	if err != nil {
		return nil, err
	}
	var standing *store.Approval
	for _, a := range open {
		if a.Land == nil || a.Land.RepoKey != key || a.Land.Update.Ref != branch.Ref() {
			continue
		}
		if right, err := stands(a); err != nil {
			return nil, err
		} else if right {
			standing = &a
			continue
		}
		_, err := s.st.CancelApproval(ctx, a.ID, "relay", "the box or the user has moved the branch since")
		if err != nil && !errors.Is(err, store.ErrSettled) && !errors.Is(err, store.ErrExpired) {
			return nil, err
		}
	}
	return standing, nil
}

// never withdraws every question about a branch.
func never(store.Approval) (bool, error) { return false, nil }

// openQuestion asks the user, and says what becomes of the request in a phrase.
// A no holds for as long as it is kept: the same request is not asked about again
// unless the user wants it.
func (s *Server) openQuestion(ctx context.Context, ask store.Ask) (string, error) {
	if a, found, err := s.denied(ctx, ask.BoxID, ask.Digest); err != nil || found {
		return "denied by the user" + note(a), err
	}
	a, opened, err := s.st.OpenApproval(ctx, ask)
	if errors.Is(err, store.ErrTooMany) {
		return fmt.Sprintf("%d questions of this box wait for the user already", maxPending), nil
	} else if err != nil {
		return "", err
	}
	if opened {
		s.event(ctx, ask.BoxID, "approval-pending", map[string]string{"id": a.ID, "message": a.Message})
	}
	return "it waits for the user's yes: " + toApprove(a.ID), nil
}

func toApprove(id string) string { return "agentbox agent approve " + id }

// buildsOn tells whether a question about the earlier commit is still the right
// one now that the box has a later one.
func (s *Server) buildsOn(ctx context.Context, gate relay.Gate, earlier, later *wire.LandApproval) (bool, error) {
	if earlier.Status != later.Status || earlier.Update.Old != later.Update.Old {
		return false, nil
	}
	f, err := gate.Facts(ctx, policy.RefUpdate{Ref: later.Update.Ref, Old: earlier.Update.New, New: later.Update.New})
	return f.FastForward, err
}

// landingAsk is the question about a landing, made of facts.
func (s *Server) landingAsk(ctx context.Context, o order, l wire.Landing) (store.Ask, error) {
	u := policy.RefUpdate{Ref: l.Branch.Ref(), Old: l.Old, New: l.New}
	if u.Old == "" {
		u.Old = core.ZeroID(len(u.New))
	}
	facts, err := o.gate.Facts(ctx, u)
	if err != nil {
		return store.Ask{}, err
	}
	facts.CI = policy.CI{} // a landing reaches no remote
	request, err := json.Marshal(landRequest{Repo: o.repo.Key, Branch: l.Branch, Tip: l.New, Agreed: true, Old: l.Old})
	if err != nil {
		return store.Ask{}, err
	}
	land := &wire.LandApproval{
		RepoKey: o.repo.Key, Project: o.repo.WorkTree, Status: l.Status,
		Update: wire.PushedRef{RefUpdate: u, Facts: facts, Reason: l.Detail},
	}
	return store.Ask{
		BoxID: o.box.ID, BoxName: o.box.Name, Method: methodLand, Digest: digest(o.box.ID, methodLand, request),
		Message: "land " + updateMessage(land.Update) + " in your repository",
		Land:    land, Request: request, TTL: s.cfg.ApprovalTTL, Limit: maxPending,
	}, nil
}

// carryOut does what the user has just agreed to, and then lets land what the
// box has built on it meanwhile.
func (s *Server) carryOut(ctx context.Context, a store.Approval) (wire.Envelope, error) {
	var request landRequest // the one field that all of them have is repo
	if err := json.Unmarshal(a.Request, &request); err != nil {
		return wire.Envelope{}, fmt.Errorf("read what %s is about: %w", a.ID, err)
	}
	in := store.Intent{
		BoxID: a.BoxID, Method: a.Method, Digest: a.Digest, ApprovalID: a.ID,
		Actor: a.AnsweredBy, Reason: "approved", Detail: a.Request, Request: a.Request,
	}
	j := job{box: core.Box{ID: a.BoxID}, repo: core.Repo{Key: request.Repo}, do: s.work(in, request.Repo)}
	env, err := s.run(ctx, j, in)
	if err != nil || env.ExitCode != wire.ExitOK || a.Method != methodLand {
		return env, err
	}
	return env, s.landKept(ctx, a.BoxID, request.Repo)
}

// landKept tries again to land what waits in a gate.
func (s *Server) landKept(ctx context.Context, boxID, key string) error {
	box, repo, gate, err := s.gateOf(ctx, boxID, key)
	if err != nil {
		return err
	}
	kept, err := gate.Kept(ctx)
	for _, l := range kept {
		if err == nil && policy.IsSanctioned(repo, l.Branch) {
			_, err = s.land(ctx, order{box: box, repo: repo, gate: gate}, l.Branch, l.New)
		}
	}
	return err
}

// carryOutAgreed does, beside the server, what the user agreed to before the
// earlier relay ended.
func (s *Server) carryOutAgreed(ctx context.Context) error {
	agreed, err := s.st.Approvals(ctx, "", wire.Approved)
	if err != nil {
		return fmt.Errorf("list what was agreed to: %w", err)
	}
	for _, a := range agreed {
		if !s.ownWork(a.Method) {
			continue
		}
		done, ok := s.begin()
		if !ok {
			return errStopping
		}
		go func() {
			defer done()
			if _, err := s.carryOut(s.serving, a); err != nil {
				s.log.Error("do what was agreed to", "approval", a.ID, "err", err)
			}
		}()
	}
	return nil
}

// postAsk opens, for the user, the question whether a commit in the gate should
// land on a branch of theirs, whatever box and branch it is of. The answer to the
// question lands it.
func (s *Server) postAsk(w http.ResponseWriter, r *http.Request) {
	var body wire.AskLanding
	if !readJSON(w, r, &body) {
		return
	}
	o, ok := s.hostOrder(w, r, body.BoxID, body.RepoKey)
	if !ok {
		return
	}
	out, err := s.propose(r.Context(), o, body)
	if err != nil {
		writeError(w, http.StatusConflict, s.explain(o.box.ID, err), "")
		return
	}
	writeJSON(w, http.StatusOK, out)
}

func (s *Server) propose(ctx context.Context, o order, ask wire.AskLanding) (wire.AskedLanding, error) {
	from := ask.Branch
	if from == "" {
		from = o.repo.Branch
	}
	tip := ask.Tip
	if tip == "" {
		var err error
		if tip, err = handedIn(ctx, o.gate, from); err != nil {
			return wire.AskedLanding{}, err
		}
	}
	to := ask.As
	if to == "" {
		to = from
	}
	l, err := o.gate.Look(ctx, to, tip)
	if err != nil || l.Status == wire.LandedUpToDate || l.Status == wire.LandedCheckedOut {
		return wire.AskedLanding{Landing: l}, err
	}
	question, err := s.landingAsk(ctx, o, l)
	if err != nil {
		return wire.AskedLanding{}, err
	}
	a, _, err := s.st.OpenApproval(ctx, question)
	return wire.AskedLanding{Landing: l, Approval: &a.Approval}, err
}

// handedIn is the newest commit that the box has handed in of a branch.
func handedIn(ctx context.Context, gate relay.Gate, branch core.BranchName) (core.ObjectID, error) {
	kept, err := gate.Kept(ctx)
	if err != nil {
		return "", err
	}
	for _, l := range kept {
		if l.Branch == branch {
			return l.New, nil
		}
	}
	u, err := landedUpdate(ctx, gate, branch)
	if errors.Is(err, errNothing) {
		err = fmt.Errorf("%w: nothing of %s has been handed in", relay.ErrRejected, branch)
	}
	return u.New, err
}

// answerTime bounds how long an answer waits for what it sets off.
const answerTime = 2 * time.Minute

// answered carries out what was agreed to, whatever becomes of the one who said
// yes.
func (s *Server) answered(ctx context.Context, a store.Approval) wire.Answered {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	defer context.AfterFunc(s.serving, cancel)()
	env, err := s.carryOut(ctx, a)
	switch {
	case err != nil:
		return wire.Answered{Failed: true, Result: s.explain(a.BoxID, err)}
	case env.ExitCode != wire.ExitOK:
		return wire.Answered{Failed: true, Result: env.Stderr}
	}
	return wire.Answered{Result: env.Stdout}
}

// getLandings lists what boxes have handed in and the user does not have: of one
// box, or of all.
func (s *Server) getLandings(w http.ResponseWriter, r *http.Request) {
	regs, err := s.st.Boxes(r.Context())
	if err != nil {
		s.internal(w, err)
		return
	}
	out := wire.Waiting{Landings: []wire.WaitingLanding{}}
	only := r.URL.Query().Get("box")
	for _, reg := range regs {
		if only != "" && reg.Box.ID != only {
			continue
		}
		for _, repo := range reg.Box.Repos {
			kept, err := s.kept(r.Context(), reg.Box, repo)
			if err != nil { // one project that is gone hides nothing of the others
				s.log.Warn("look what waits to land", "box", reg.Box.ID, "err", err)
			}
			for _, l := range kept {
				out.Landings = append(out.Landings, wire.WaitingLanding{BoxID: reg.Box.ID, RepoKey: repo.Key, Landing: l})
			}
		}
	}
	writeJSON(w, http.StatusOK, out)
}

func (s *Server) kept(ctx context.Context, box core.Box, repo core.Repo) ([]wire.Landing, error) {
	gate, err := s.cfg.Gates.Gate(ctx, box, repo)
	if err != nil {
		return nil, err
	}
	return gate.Kept(ctx)
}
