package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
)

// ErrUnknownMethod: no such RPC.
var ErrUnknownMethod = errors.New("rpc method not implemented")

// method decodes the params of one RPC and does it.
type method func(s *Server, ctx context.Context, box core.Box, req wire.Request) (wire.Envelope, error)

// methods is the closed table of what a box may ask for, beside Config.Methods.
var methods = map[string]method{
	"git.push":  (*Server).rpcPush,
	"git.fetch": (*Server).rpcFetch,
	"git.pull":  (*Server).rpcFetch,

	string(policy.GitLease): (*Server).rpcLease,
}

// Dispatch decides and does what a box asks for by RPC. The envelope tells what
// came of it, refusals included. Errors: ErrUnknownMethod, store.ErrConflict
// (the request id belongs to another request), the context's, the store's.
func (s *Server) Dispatch(ctx context.Context, box core.Box, req wire.Request) (wire.Envelope, error) {
	if m, ok := s.hostMethod(req.Method); ok {
		return s.act(ctx, m, relay.Call{Box: box, Method: req.Method, Body: req.Params}, req.RequestID, "")
	}
	do, ok := methods[req.Method]
	if !ok {
		s.event(ctx, box.ID, "rpc-unknown", map[string]string{"method": core.Untrusted(req.Method).Quote()})
		return wire.Envelope{}, ErrUnknownMethod
	}
	return do(s, ctx, box, req)
}

// gitCall is a git RPC, decoded and resolved.
type gitCall struct {
	order
	params wire.GitParams
	flags  flags
	branch core.BranchName
}

// gitCall decodes params. A refusal comes as an envelope with ok false.
func (s *Server) gitCall(ctx context.Context, box core.Box, req wire.Request, allowed flagTable) (c gitCall, refused wire.Envelope, ok bool) {
	if err := wire.Decode(req.Params, &c.params); err != nil {
		return c, refusal(wire.ExitBadRequest, err.Error()), false
	}
	repo, found := box.RepoAt(c.params.Path)
	if !found {
		return c, refusal(wire.ExitBadRequest, "no repository of the box is at "+core.Untrusted(c.params.Path).Quote()), false
	}
	if c.params.Remote != "" && core.RemoteName(c.params.Remote) != repo.Remote {
		return c, refusal(wire.ExitRefused, fmt.Sprintf("remote %s is not the recorded one, %s", core.Untrusted(c.params.Remote).Quote(), core.Untrusted(repo.Remote).Quote())), false
	}
	var err error
	if c.flags, err = allowed.decode(c.params.Args); err != nil {
		return c, refusal(wire.ExitRefused, err.Error()), false
	}
	if c.branch, err = branchParam(repo, c.params.Branch); err != nil {
		return c, refusal(wire.ExitBadRequest, err.Error()), false
	}
	gate, err := s.cfg.Gates.Gate(ctx, box, repo)
	if err != nil {
		return c, refusal(wire.ExitFailed, s.explain(box.ID, err)), false
	}
	c.order = order{box: box, repo: repo, gate: gate, requestID: req.RequestID}
	return c, wire.Envelope{}, true
}

// branchParam is the branch that an RPC is about: where the host put the box
// unless the box names another.
func branchParam(repo core.Repo, name string) (core.BranchName, error) {
	switch {
	case name != "":
		return core.ParseBranchName(name)
	case repo.Sanctioned != "":
		return repo.Sanctioned, nil
	}
	return repo.Branch, nil
}

func (s *Server) rpcPush(ctx context.Context, box core.Box, req wire.Request) (wire.Envelope, error) {
	c, refused, ok := s.gitCall(ctx, box, req, pushFlags)
	switch {
	case !ok:
		return refused, nil
	case c.params.As != "" && !c.params.HostOnly:
		return refusal(wire.ExitBadRequest, "as belongs to a push with hostOnly"), nil
	case c.params.HostOnly:
		return s.hostOnly(ctx, c)
	}
	if c.params.OID != "" {
		// A client that names the commit means that one, not what landed since.
		u, err := landedUpdate(ctx, c.gate, c.branch)
		if err != nil || string(u.New) != c.params.OID {
			return refusal(wire.ExitFailed, fmt.Sprintf("%s has not landed as %s; commit and try again", c.branch, core.Untrusted(c.params.OID).Quote())), nil
		}
	}
	return s.pushLanded(ctx, c.order, c.branch, c.params.Force || c.flags.lease, c.flags.dryRun)
}

func (s *Server) rpcFetch(ctx context.Context, box core.Box, req wire.Request) (wire.Envelope, error) {
	allowed := fetchFlags
	if req.Method == "git.pull" {
		allowed = pullFlags
	}
	c, refused, ok := s.gitCall(ctx, box, req, allowed)
	if !ok {
		return refused, nil
	}
	if p := c.params; p.OID != "" || p.HostOnly || p.As != "" || p.Force {
		return refusal(wire.ExitBadRequest, "oid, hostOnly, as and force belong to a push"), nil
	}
	return s.fetch(ctx, c.order)
}

// rpcLease answers who asks for a short-lived token of the remote's forge. A
// laptop has no GitHub App that could mint one, so nobody is asked: a yes could
// not be kept. Its pushes go through the gate, without a token in the box.
func (s *Server) rpcLease(_ context.Context, box core.Box, req wire.Request) (wire.Envelope, error) {
	var p struct {
		Path string `json:"path"`
	}
	if err := wire.Decode(req.Params, &p); err != nil {
		return refusal(wire.ExitBadRequest, err.Error()), nil
	}
	if _, ok := box.RepoAt(p.Path); !ok {
		return refusal(wire.ExitBadRequest, "no repository of the box is at "+core.Untrusted(p.Path).Quote()), nil
	}
	return refusal(wire.ExitBadRequest, "no GitHub App is configured on this host, so there is no token to lease; push with git push, which the host does with the user's credentials"), nil
}
