package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/madarco/agentbox/core"
	stream "github.com/madarco/agentbox/core/setup"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/control"
	"github.com/madarco/agentbox/ctl/daemon"
	"github.com/madarco/agentbox/ctl/initd"
	"github.com/madarco/agentbox/ctl/relayenv"
	"github.com/madarco/agentbox/ctl/setup"
	"github.com/madarco/agentbox/ctl/workspace"
)

func runInit(_ context.Context, _ []string, s streams) int {
	self, err := os.Executable()
	if err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	err = initd.Run(initd.Options{
		Daemon: []string{self, "daemon"},
		Word:   initd.WordPath,
		Log:    log.New(s.err, "agentbox-ctl init: ", log.LstdFlags|log.LUTC),
	})
	if err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	return wire.ExitOK
}

func runDaemon(ctx context.Context, args []string, s streams) int {
	flags := newFlags("daemon")
	socket := flags.String("socket", control.DefaultSocket, "the control socket")
	stateDir := flags.String("state-dir", daemon.DefaultStateDir, "what a restart must not lose")
	bridgeFD := flags.Int("bridge-token-fd", -1, "read the bridge's token of a cloud box from this descriptor")
	if code, ok := parse(flags, args, s); !ok {
		return code
	}
	bridgeToken, err := daemon.ReadBridgeToken(*bridgeFD)
	if err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	defer stop()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	logger := log.New(s.err, "agentbox-ctl daemon: ", log.LstdFlags|log.LUTC)
	err = daemon.Run(ctx, daemon.Options{Socket: *socket, StateDir: *stateDir, Version: version, BridgeToken: bridgeToken, Hangup: hangup, Log: logger})
	if errors.Is(err, daemon.ErrRunning) {
		logger.Printf("%v; this one steps back", err)
		return wire.ExitOK
	}
	if err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	return wire.ExitOK
}

func runSetup(ctx context.Context, args []string, s streams) int {
	flags := newFlags("setup")
	o := setup.Options{MakeRepo: workspace.Build, Fill: workspace.Fill, Word: initd.WordPath}
	flags.StringVar(&o.RelayEnv, "relay-env", relayenv.DefaultPath, "where the relay's address goes")
	flags.StringVar(&o.StateDir, "state-dir", daemon.DefaultStateDir, "what a restart must not lose")
	flags.StringVar(&o.Socket, "socket", control.DefaultSocket, "the daemon's control socket")
	if code, ok := parse(flags, args, s); !ok {
		return code
	}
	report, code := stream.Report{OK: true}, wire.ExitOK
	if err := setup.Run(ctx, s.in, o); err != nil {
		report, code = stream.Report{Error: core.Untrusted(err.Error())}, wire.ExitFailed
	}
	if err := json.NewEncoder(s.out).Encode(report); err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	return code
}
