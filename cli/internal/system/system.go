// Package system makes the real dependencies of the commands: this machine's
// engine, git, relay and state.
package system

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/madarco/agentbox/cli/internal/boxes"
	"github.com/madarco/agentbox/cli/internal/config"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/interrupt"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/relay/gitgate"
	"github.com/madarco/agentbox/sandbox-core/state"
	"github.com/madarco/agentbox/sandbox-core/workspace"
	sandboxdocker "github.com/madarco/agentbox/sandbox-docker"
	"github.com/madarco/agentbox/sandbox-docker/engine"
)

// System is this machine.
type System struct {
	*factory.Factory
	interrupts *interrupt.Watcher
	steps      *streams.Steps
	docker     func() (provider.Provider, error)
	git        func() (*gitgate.Host, error)
}

// New knows this machine; it opens nothing.
func New(s *streams.Streams, version string, interrupts *interrupt.Watcher) *System {
	sys := &System{interrupts: interrupts, steps: streams.NewSteps(s, time.Now)}
	home := sync.OnceValues(core.DefaultHome)
	sys.docker = sync.OnceValues(sys.newDocker)
	sys.git = sync.OnceValues(func() (*gitgate.Host, error) {
		h, err := home()
		if err != nil {
			return nil, err
		}
		return gitgate.New(h, gitgate.Options{})
	})
	sys.Factory = &factory.Factory{
		Streams: s, Version: version, Now: time.Now, Getwd: os.Getwd, Home: home,
		Provider: sys.provider, Relay: sys.startedRelay, RunningRelay: sys.relay,
	}
	return sys
}

func (sys *System) provider(name string) (provider.Provider, error) {
	if err := factory.CheckProvider(name); err != nil {
		return nil, err
	}
	return sys.docker()
}

func (sys *System) newDocker() (provider.Provider, error) {
	home, err := sys.Home()
	if err != nil {
		return nil, err
	}
	userHome, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("find your home folder: %w", err)
	}
	at, err := sandboxdocker.Endpoint(os.Getenv, userHome)
	if err != nil {
		return nil, err
	}
	eng, err := engine.Connect(at)
	if err != nil {
		return nil, err
	}
	// A broken configuration is the error of what makes boxes by it, and keeps
	// nobody from stopping one.
	user, _ := config.Load(home)
	return sandboxdocker.New(sandboxdocker.Options{
		Engine:      eng,
		Image:       user.Image,
		NetworkPool: user.NetworkPool,
		Version:     sys.Version,
		Registry:    sandboxdocker.DefaultRegistry,
		StateDir:    string(home),
		Progress:    sys.steps.Line,
	})
}

// Step shows a part of long work.
func (sys *System) Step(name string) (done func(error)) { return sys.steps.Step(name) }

// Open opens the user's project at a folder.
func (sys *System) Open(ctx context.Context, folder string, o workspace.Options) (boxes.Project, error) {
	root, err := sys.Project(folder)
	if err != nil {
		return nil, err
	}
	home, err := sys.Home()
	if err != nil {
		return nil, err
	}
	git, err := sys.git()
	if err != nil {
		return nil, err
	}
	return workspace.Open(ctx, git, home, root, o)
}

// Creator makes boxes with p.
func (sys *System) Creator(p provider.Provider) (*boxes.Creator, error) {
	home, err := sys.Home()
	if err != nil {
		return nil, err
	}
	config, err := sys.Config()
	if err != nil {
		return nil, err
	}
	return &boxes.Creator{
		AutoApprove: config.AutoApprove, AutoApproveSafe: config.AutoApproveSafe,
		Home: home, Store: state.Open(home), Provider: p, Relay: sys.Relay, Now: sys.Now,
		Step: sys.steps.Step, Remains: sys.interrupts.Remains,
	}, nil
}

// Keeper starts, stops and destroys boxes.
func (sys *System) Keeper() (*boxes.Keeper, error) {
	home, err := sys.Home()
	if err != nil {
		return nil, err
	}
	return &boxes.Keeper{
		Home: home, Store: state.Open(home), Provider: sys.Provider, Relay: sys.Relay,
		Repositories: func() (boxes.Repositories, error) { return sys.git() },
		Setup:        workspace.Restart,
	}, nil
}
