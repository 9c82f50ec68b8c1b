package system

import (
	"context"
	"errors"
	"os"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/integrations"
	"github.com/madarco/agentbox/relay/connect"
	"github.com/madarco/agentbox/relay/hostexec"
	"github.com/madarco/agentbox/sandbox-core/state"
)

// integrationTries are one for each service, about the project that the user
// stands in.
func (sys *System) integrationTries() []provider.Try {
	var tries []provider.Try
	for _, s := range integrations.All() {
		tries = append(tries, provider.Try{Name: "integrations/" + s.Name, Soft: true, Run: func(ctx context.Context) (string, error) {
			return sys.tryIntegration(ctx, s)
		}})
	}
	return tries
}

func (sys *System) tryIntegration(ctx context.Context, s integrations.Service) (found string, err error) {
	home, err := sys.Home()
	if err != nil {
		return "", err
	}
	root, err := sys.Project("")
	if err != nil {
		root = "" // what holds for all projects
	}
	set, err := integrationSettings(home)(root, s.Name)
	if err != nil {
		return "", err
	}
	if !set.Enabled {
		return "off; integrations." + s.Name + ".enabled in config.yaml switches it on", nil
	}
	dir, err := os.MkdirTemp("", "agentbox-doctor-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // of the temporary folder
	host, err := hostexec.New(dir, func(context.Context) ([]core.Box, error) {
		st, err := state.Open(home).Read()
		return st.Boxes, err
	})
	if err != nil {
		return "", err
	}
	version, err := connect.Examine(ctx, host, s)
	switch {
	case errors.Is(err, connect.ErrMissing):
		err = &fail.Error{Err: err, Code: fail.Failed, Next: s.Detect.Install}
	case errors.Is(err, connect.ErrLoggedOut):
		err = &fail.Error{Err: err, Code: fail.Failed, Next: s.Detect.Login}
	}
	return version, err
}
