package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/store"
)

// settings are the user's for a box: what the relay was started with, and what
// the box's record says.
func (s *Server) settings(box core.Box) policy.Settings {
	set := s.cfg.Policy
	set.Off = set.Off || s.cfg.ApprovalsOff
	set.All = set.All || box.AutoApproveHostActions
	if box.AutoApproveSafeHostActions != nil {
		set.Safe = *box.AutoApproveSafeHostActions
	}
	return set
}

// hostMethod finds the method of a name: its own entry in Config.Methods, else
// that of its family, such as "integration.*", which judges the rest of the name.
func (s *Server) hostMethod(name string) (relay.Method, bool) {
	if m, ok := s.cfg.Methods[name]; ok {
		return m, true
	}
	family, _, dotted := strings.Cut(name, ".")
	m, ok := s.cfg.Methods[family+".*"]
	return m, ok && dotted
}

// act does one host action of a table entry, for a box or, where operator is
// set, for the user.
func (s *Server) act(ctx context.Context, m relay.Method, call relay.Call, requestID, operator string) (wire.Envelope, error) {
	a, err := m.Prepare(ctx, call)
	var refused *relay.Refusal
	switch {
	case errors.As(err, &refused):
		return refusal(refused.Code, refused.Text), nil
	case err != nil:
		return refusal(wire.ExitFailed, s.explain(call.Box.ID, err)), nil
	}
	j := job{
		box: call.Box, repo: core.Repo{Key: a.Serial}, method: call.Method, request: a.Request, requestID: requestID,
		actor: actorPolicy, denied: wire.ExitDenied, decision: policy.Decide(a.Kind, a.Facts, s.settings(call.Box)),
		message: a.Message, show: shown(a), ttl: a.TTL,
		do: doing(m, call, a.Request),
	}
	if operator != "" {
		j.actor, j.decision = operator, policy.Decision{Verdict: policy.Allow, Reason: "the user's own command"}
	}
	if o, ok := m.(relay.Offer); ok && j.decision.Verdict == policy.Ask {
		return s.offer(ctx, j, o.Answer())
	}
	return s.perform(ctx, j, func(string) {})
}

// shown is what the user is shown of an action, with the class of it.
func shown(a relay.Action) *wire.ActionApproval {
	var show wire.ActionApproval
	if a.Show != nil {
		show = *a.Show
	}
	show.Class, _ = policy.ClassOfAction(a.Kind, a.Facts)
	return &show
}

// doing is the work of a request, from what is written down of it.
func doing(m relay.Method, call relay.Call, request any) func(context.Context, func(int) error) store.Outcome {
	return func(ctx context.Context, started func(int) error) store.Outcome {
		body, err := json.Marshal(request)
		if err != nil {
			return failed("the request can't be written down")
		}
		call.Body = body
		return m.Do(ctx, call, started)
	}
}

// offer opens the question about a job that nobody waits for.
func (s *Server) offer(ctx context.Context, j job, answer wire.Envelope) (wire.Envelope, error) {
	request, err := json.Marshal(j.request)
	if err != nil {
		return wire.Envelope{}, fmt.Errorf("encode the request: %w", err)
	}
	if _, err := s.openQuestion(ctx, s.question(j, digest(j.box.ID, j.method, request), request)); err != nil {
		return wire.Envelope{}, err
	}
	return answer, nil
}

// postAct does a host action for a box as the user, whose command it is.
func (s *Server) postAct(w http.ResponseWriter, r *http.Request) {
	var body wire.Act
	if !readJSON(w, r, &body) {
		return
	}
	reg, err := s.st.Box(r.Context(), body.BoxID)
	m, known := s.hostMethod(body.Method)
	switch {
	case errors.Is(err, store.ErrNotFound):
		writeError(w, http.StatusNotFound, "the relay does not know the box", "start it with: agentbox start")
	case err != nil:
		s.internal(w, err)
	case !known:
		writeError(w, http.StatusNotImplemented, ErrUnknownMethod.Error(), "")
	default:
		call := relay.Call{Box: reg.Box, Method: body.Method, Body: body.Params, ByUser: true}
		env, err := s.act(r.Context(), m, call, body.RequestID, operator(r).Actor())
		if err != nil {
			s.internal(w, err)
			return
		}
		writeJSON(w, http.StatusOK, env)
	}
}
