package server

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/handin"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/setup"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// boxRepository finds the repository that an operator's request names; empty key
// means the project's own. It has answered where there is none.
func (s *Server) boxRepository(w http.ResponseWriter, r *http.Request, boxID, key string) (store.Registration, core.Repo, bool) {
	reg, err := s.st.Box(r.Context(), boxID)
	if errors.Is(err, store.ErrNotFound) {
		writeError(w, http.StatusNotFound, "the relay does not know the box", "start it with: agentbox start")
		return reg, core.Repo{}, false
	} else if err != nil {
		s.internal(w, err)
		return reg, core.Repo{}, false
	}
	repo, ok := reg.Box.Root()
	if key != "" {
		repo, ok = reg.Box.Repo(key)
	}
	if !ok {
		writeError(w, http.StatusNotFound, "the box has no such repository", "")
	}
	return reg, repo, ok
}

// hostOrder opens the repository of an operator's git request.
func (s *Server) hostOrder(w http.ResponseWriter, r *http.Request, boxID, key string) (order, bool) {
	reg, repo, ok := s.boxRepository(w, r, boxID, key)
	if !ok {
		return order{}, false
	}
	gate, err := s.cfg.Gates.Gate(r.Context(), reg.Box, repo)
	if err != nil {
		s.internal(w, err)
		return order{}, false
	}
	return order{box: reg.Box, repo: repo, gate: gate, operator: operator(r).Actor()}, true
}

// postPush pushes, for the user, what a box has landed.
func (s *Server) postPush(w http.ResponseWriter, r *http.Request) {
	var body wire.HostPush
	if !readJSON(w, r, &body) {
		return
	}
	o, ok := s.hostOrder(w, r, body.BoxID, body.RepoKey)
	if !ok {
		return
	}
	branch := body.Branch
	if branch == "" {
		branch = o.repo.Branch
	}
	env, err := s.pushLanded(r.Context(), o, branch, body.Force, false)
	if err != nil {
		s.internal(w, err)
		return
	}
	writeJSON(w, http.StatusOK, env)
}

// postLand takes what the user's command pulled out of a box whose daemon is
// dead: a stream of package handin, for the box in the query.
func (s *Server) postLand(w http.ResponseWriter, r *http.Request) {
	unhurried(w)
	body := http.MaxBytesReader(w, r.Body, 64*s.cfg.MaxPack)
	head, err := handin.ReadHeader(body)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error(), "")
		return
	}
	out := wire.Landings{Landings: []wire.LandingResult{}}
	for _, tip := range head.Tips {
		pack := setup.NewSection(body)
		o, ok := s.hostOrder(w, r, r.URL.Query().Get("box"), tip.RepoKey)
		if !ok {
			return
		}
		env, err := s.landTip(r.Context(), o, tip, pack, r.URL.Query().Get("ask") == "1")
		if err == nil {
			_, err = io.Copy(io.Discard, pack) // to where the next one begins
		}
		if err != nil {
			writeError(w, http.StatusBadRequest, s.explain(o.box.ID, err), "")
			return
		}
		out.Landings = append(out.Landings, wire.LandingResult{RepoKey: tip.RepoKey, Branch: tip.Branch, Tip: tip.OID, Envelope: env})
	}
	writeJSON(w, http.StatusOK, out)
}

// landTip takes one branch out of the stream. It is the box's word all the
// same: it lands under the box's rules, whoever carried it. What the user will be
// asked about may be of any branch, and is only taken in.
func (s *Server) landTip(ctx context.Context, o order, tip handin.Tip, pack io.Reader, ask bool) (wire.Envelope, error) {
	if d := checkLanding(o.repo, tip.Branch, policy.RefUpdate{New: tip.OID}); d.Verdict == policy.Deny && !ask {
		return refusal(wire.ExitRefused, d.Reason), nil
	}
	u := policy.RefUpdate{Ref: wire.LandingPrefix + string(tip.Branch), Old: core.ZeroID(len(tip.OID)), New: tip.OID}
	if err := s.take(ctx, o, pack, []policy.RefUpdate{u}); err != nil {
		return refusal(wire.ExitFailed, s.explain(o.box.ID, err)), nil
	}
	if ask {
		return wire.Envelope{}, nil
	}
	return s.land(ctx, o, tip.Branch, tip.OID)
}
