package daemon

import (
	"context"
	"path/filepath"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/connect"
	"github.com/madarco/agentbox/relay/forge"
	"github.com/madarco/agentbox/relay/hostexec"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/transfer"
)

// methods are the host actions that a laptop's relay does, beside git's own.
func methods(cfg Config, st store.Store) (map[string]relay.Method, error) {
	calls := filepath.Join(filepath.Dir(cfg.Home.OperatorSocket()), "calls")
	host, err := hostexec.New(calls, func(ctx context.Context) ([]core.Box, error) { return boxes(ctx, st) })
	if err != nil {
		return nil, err
	}
	all := map[string]relay.Method{
		connect.Family: connect.New(host, cfg.Integrations),
		forge.Family:   forge.New(host, func(ctx context.Context) (map[store.TokenHash]bool, error) { return tokens(ctx, st) }),
	}
	if cfg.Boxes != nil {
		if all[transfer.CopyToHost], err = transfer.NewToHost(cfg.Home, cfg.Boxes, cfg.ApprovalTTL); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// tokens are the hashes of all tokens that boxes hold.
func tokens(ctx context.Context, st store.Store) (map[store.TokenHash]bool, error) {
	regs, err := st.Boxes(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[store.TokenHash]bool, len(regs))
	for _, reg := range regs {
		all[reg.Token] = true
	}
	return all, nil
}

func boxes(ctx context.Context, st store.Store) ([]core.Box, error) {
	regs, err := st.Boxes(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]core.Box, len(regs))
	for i, reg := range regs {
		all[i] = reg.Box
	}
	return all, nil
}
