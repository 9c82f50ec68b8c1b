package connect

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/madarco/agentbox/integrations"
	"github.com/madarco/agentbox/relay/hostexec"
)

// Why a program can't serve boxes.
var (
	ErrMissing   = errors.New("the program is missing")
	ErrLoggedOut = errors.New("the program is not logged in")
)

// Examine tries the program of a service as Do would use it, and says its
// version. Errors wrap ErrMissing and ErrLoggedOut.
func Examine(ctx context.Context, programs Programs, s integrations.Service) (version string, err error) {
	p, err := programs.Find(ctx, s.Program)
	if errors.Is(err, hostexec.ErrNotFound) {
		return "", fmt.Errorf("%s: %w", s.Program, ErrMissing)
	} else if err != nil {
		return "", err
	}
	env, err := s.Environ()
	if err != nil {
		return "", err
	}
	ask := func(args []string) hostexec.Result {
		return programs.Run(ctx, hostexec.Command{
			Program: p, Args: args, Inherit: []string{s.EnvPrefix() + "*"}, Env: env, Timeout: probeTimeout, MaxOutput: 4 << 10,
		})
	}
	r := ask(s.Detect.Version)
	if !r.OK() {
		return "", fmt.Errorf("%s %s ended with %d: %w", s.Program, strings.Join(s.Detect.Version, " "), r.ExitCode, ErrMissing)
	}
	if len(s.Detect.Auth) > 0 {
		if auth := ask(s.Detect.Auth); !auth.OK() {
			return "", fmt.Errorf("%s %s ended with %d: %w", s.Program, strings.Join(s.Detect.Auth, " "), auth.ExitCode, ErrLoggedOut)
		}
	}
	version, _, _ = strings.Cut(strings.TrimSpace(string(r.Stdout)), "\n")
	return version, nil
}
