package system

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/madarco/agentbox/cli/internal/boxes"
	"github.com/madarco/agentbox/cli/internal/cmd/relay"
	"github.com/madarco/agentbox/cli/internal/config"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/autopause"
	"github.com/madarco/agentbox/relay/budget"
	"github.com/madarco/agentbox/relay/client"
	"github.com/madarco/agentbox/relay/connect"
	"github.com/madarco/agentbox/relay/daemon"
)

// relay is a client of the relay, which need not run.
func (sys *System) relay() (factory.Relay, error) {
	home, err := sys.Home()
	if err != nil {
		return nil, err
	}
	return client.New(home), nil
}

// startedRelay is a client of a relay that answers.
func (sys *System) startedRelay(ctx context.Context) (factory.Relay, error) {
	if _, err := sys.ensure(ctx, false); err != nil {
		return nil, err
	}
	return sys.relay()
}

func (sys *System) ensure(ctx context.Context, typed bool) (wire.Health, error) {
	home, err := sys.Home()
	if err != nil {
		return wire.Health{}, err
	}
	h, err := daemon.Ensure(ctx, daemon.Start{Home: home, Version: sys.Version, Typed: typed})
	return h, unreachable(ctx, home.RelayLog(), err)
}

// unreachable gives a relay that does not come up its code.
func unreachable(ctx context.Context, log string, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	next := fail.Of(err).Next
	return &fail.Error{Err: err, Code: fail.Relay, Next: cmp.Or(next, "look into "+log)}
}

// reach reaches into boxes by the provider of each.
type reach struct{ sys *System }

// Exec implements relay.Boxes.
func (b reach) Exec(ctx context.Context, box core.Box, req provider.ExecRequest) (int, error) {
	p, err := b.sys.Provider(box.Provider)
	if err != nil {
		return 0, err
	}
	return p.Exec(ctx, box, req)
}

// States implements autopause.Boxes.
func (b reach) States(ctx context.Context, all []core.Box) (map[string]core.State, error) {
	states := map[string]core.State{}
	for i, s := range boxes.States(ctx, b.sys.Provider, all) {
		states[all[i].ID] = s
	}
	return states, nil
}

// Pause implements autopause.Boxes: like the command, it lets the box hand in its
// commits first.
func (b reach) Pause(ctx context.Context, box core.Box) error {
	keeper, err := b.sys.Keeper()
	if err == nil {
		_, err = keeper.Pause(ctx, box)
	}
	return err
}

// pausing is what the user has set now; nothing is paused by a configuration that
// can't be read.
func pausing(home core.Home) autopause.Settings {
	set, err := config.Load(home)
	if err != nil {
		return autopause.Settings{}
	}
	return autopause.Settings{Enabled: set.Autopause, MaxRunning: set.MaxRunningBoxes, Idle: set.IdleBefore}
}

// Daemon is the life of the relay.
func (sys *System) Daemon() relay.Daemon { return life{sys} }

type life struct{ sys *System }

// Serve implements relay.Daemon. The switch that turns approvals off counts
// only here and in Start, where the user typed the command.
func (l life) Serve(ctx context.Context, host string, port int) error {
	home, err := l.sys.Home()
	if err != nil {
		return err
	}
	config, err := l.sys.Config()
	if err != nil {
		return err
	}
	err = daemon.Serve(ctx, daemon.Config{
		Budget:  budget.Limits{Bytes: config.LandingBudget, Reserve: config.DiskReserve},
		MaxPack: config.MaxPack, PlaneURL: config.PlaneURL,
		Home: home, Version: l.sys.Version, Host: host, Port: port,
		ApprovalTTL:  config.ApprovalTimeout,
		ApprovalsOff: os.Getenv("AGENTBOX_PROMPT") == "off",
		Policy: policy.Settings{
			Safe:       config.AutoApproveSafe, // and each box's record says the rest
			ForceMerge: os.Getenv("AGENTBOX_GH_FORCE") == "1", Checkout: os.Getenv("AGENTBOX_GH_PR_CHECKOUT") == "allow",
		},
		Boxes:        reach(l),
		Pauses:       reach(l),
		Autopause:    func() autopause.Settings { return pausing(home) },
		Integrations: integrationSettings(home),
		Log:          slog.New(slog.NewTextHandler(l.sys.Streams.ErrOut, nil)),
	})
	if errors.Is(err, daemon.ErrRunning) {
		return &fail.Error{Err: err, Code: fail.Relay, Next: "agentbox relay status"}
	}
	return err
}

func (l life) Start(ctx context.Context) (wire.Health, error) { return l.sys.ensure(ctx, true) }

func (l life) Stop(ctx context.Context) error {
	home, err := l.sys.Home()
	if err != nil {
		return err
	}
	return daemon.Stop(ctx, home)
}

func (l life) Restart(ctx context.Context) (wire.Health, error) {
	home, err := l.sys.Home()
	if err != nil {
		return wire.Health{}, err
	}
	h, err := daemon.Restart(ctx, daemon.Start{Home: home, Version: l.sys.Version, Typed: true})
	return h, unreachable(ctx, home.RelayLog(), err)
}

func (l life) Status(ctx context.Context) (wire.Health, error) {
	home, err := l.sys.Home()
	if err != nil {
		return wire.Health{}, err
	}
	return daemon.Status(ctx, home)
}

// integrationSettings reads the user's configuration at each call.
func integrationSettings(home core.Home) connect.Settings {
	return func(project, service string) (connect.Setting, error) {
		c, err := config.Load(home)
		if err != nil {
			return connect.Setting{}, err
		}
		enabled, scope := c.Integration(service, project)
		return connect.Setting{Enabled: enabled, Scope: scope}, nil
	}
}
