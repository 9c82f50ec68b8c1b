package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/githttp"
)

// endpoint makes the smart-HTTP endpoint of the repository that a request
// names; it answers the request itself when there is none.
func (s *Server) endpoint(w http.ResponseWriter, r *http.Request) (*githttp.Endpoint, bool) {
	unhurried(w)
	box := boxOf(r).Box
	repo, ok := box.Repo(chi.URLParam(r, "key"))
	if !ok {
		writeError(w, http.StatusNotFound, "the box has no such repository", "")
		return nil, false
	}
	gate, err := s.cfg.Gates.Gate(r.Context(), box, repo)
	if err != nil {
		writeError(w, http.StatusInternalServerError, s.explain(box.ID, err), "")
		return nil, false
	}
	return &githttp.Endpoint{
		Repo:    &boxRepo{Gate: gate, s: s, box: box, repo: repo},
		MaxPack: s.cfg.MaxPack,
	}, true
}

// boxRepo is a gate behind the endpoint, with the relay's decisions in it.
type boxRepo struct {
	relay.Gate
	s    *Server
	box  core.Box
	repo core.Repo
}

// Refs implements githttp.Repository.
func (b *boxRepo) Refs(ctx context.Context, forPush bool) (relay.Refs, error) {
	refs, err := b.Gate.Refs(ctx, forPush)
	if err != nil {
		err = errors.New(b.s.explain(b.box.ID, err))
	}
	return refs, err
}

// Refresh implements githttp.Repository.
func (b *boxRepo) Refresh(ctx context.Context) error {
	if err := b.s.refresh(ctx, b.box, b.repo, b.Gate, ""); err != nil {
		return errors.New(b.s.explain(b.box.ID, err))
	}
	return nil
}

// Serve implements githttp.Repository.
func (b *boxRepo) Serve(ctx context.Context, protocol string, body io.Reader, out io.Writer) error {
	if err := b.Gate.Serve(ctx, protocol, body, out); err != nil {
		return errors.New(b.s.explain(b.box.ID, err))
	}
	return nil
}

// Check implements githttp.Repository.
func (b *boxRepo) Check(u policy.RefUpdate) string {
	d := policy.CheckRef(u)
	if branch, ok := landingBranch(u.Ref); ok {
		d = checkLanding(b.repo, branch, u)
	}
	if d.Verdict == policy.Deny {
		return d.Reason
	}
	return ""
}

// Receive implements githttp.Repository: a push to the remote, or a hand-in.
func (b *boxRepo) Receive(ctx context.Context, p githttp.Push, tell func(string)) ([]githttp.Result, error) {
	results, err := b.receive(ctx, p, tell)
	if err != nil {
		err = errors.New(b.s.explain(b.box.ID, err))
	}
	return results, err
}

func (b *boxRepo) receive(ctx context.Context, p githttp.Push, tell say) ([]githttp.Result, error) {
	landing := 0
	for _, u := range p.Updates {
		if strings.HasPrefix(u.Ref, "refs/agentbox/") {
			landing++
		}
	}
	if landing > 0 && (landing < len(p.Updates) || p.Atomic) {
		return nil, errMixed
	}
	o := order{box: b.box, repo: b.repo, gate: b.Gate, updates: p.Updates, atomic: p.Atomic}
	if landing > 0 {
		if err := b.s.pace.Wait(ctx, b.box.ID); err != nil {
			return nil, err
		}
	}
	if err := b.s.take(ctx, o, p.Pack, p.Updates); err != nil {
		return nil, err
	}
	if landing > 0 {
		return b.s.landAll(ctx, o)
	}
	_, results, err := b.s.push(ctx, o, tell)
	return results, err
}

// errMixed: a landing is a thing of its own.
var errMixed = fmt.Errorf("%w: a landing can be neither atomic nor mixed with a push", relay.ErrRejected)
