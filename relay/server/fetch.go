package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/store"
)

// refresh fetches from the remote with the user's credentials. It is always
// allowed, and so written down like everything that policy allows.
func (s *Server) refresh(ctx context.Context, box core.Box, repo core.Repo, gate relay.Gate, operator string) error {
	detail, err := json.Marshal(map[string]string{"repo": repo.Key, "remote": string(repo.Remote)})
	if err != nil {
		return err
	}
	actor := operator
	if operator == "" {
		actor = actorPolicy
		if err := s.hasShare(ctx, box); err != nil {
			return err
		}
	}
	if _, err := s.st.AppendAudit(ctx, store.Entry{BoxID: box.ID, Actor: actor, Action: "git.fetch", Detail: detail}); err != nil {
		return fmt.Errorf("write the fetch down: %w", err)
	}
	return gate.Refresh(ctx)
}

// fetch is the RPC: the host looks at the remote, and the box's own git takes
// over from there.
func (s *Server) fetch(ctx context.Context, o order) (wire.Envelope, error) {
	if err := s.refresh(ctx, o.box, o.repo, o.gate, ""); err != nil {
		return refusal(wire.ExitFailed, s.explain(o.box.ID, err)), nil
	}
	refs, err := o.gate.Refs(ctx, false)
	if err != nil {
		return refusal(wire.ExitFailed, s.explain(o.box.ID, err)), nil
	}
	var env wire.Envelope
	for _, ref := range refs.List {
		env.Stdout += string(ref.OID) + " " + ref.Name + "\n"
	}
	return env, nil
}
