package run

import (
	"context"
	"strings"
	"testing"

	"github.com/madarco/agentbox/cli/internal/cmd/create"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/launch"
	"github.com/madarco/agentbox/cli/internal/session/sessiontest"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		command []string
		env     string
		made    int
		code    fail.Code
		argv    string
	}{
		{[]string{"make", "a b"}, "", 1, 0, "make|a b"},
		{[]string{"cd x && make"}, "", 1, 0, "/bin/bash|-lc|cd x && make"},
		{[]string{"claude", "-p", "hi"}, "k", 1, 0, "claude|--dangerously-skip-permissions|-p|hi"},
		{[]string{"claude", "-p", "hi"}, "", 0, fail.Usage, ""},
	} {
		b := sessiontest.New()
		s, _, _, _ := streams.Test()
		made := 0
		err := Run(t.Context(), &Options{
			Options: launch.Options{Streams: s, Getenv: func(name string) string {
				if name == "ANTHROPIC_API_KEY" {
					return c.env
				}
				return ""
			}},
			Create: &create.Options{},
			Make: func(context.Context, *create.Options) (core.Box, provider.Provider, error) {
				made++
				return b.Box, b, nil
			},
			Command: c.command,
		})
		if code := fail.Of(err).Code; err != nil && code != c.code || err == nil && c.code != 0 || made != c.made {
			t.Errorf("%q: %v, %d boxes", c.command, err, made)
		}
		if got := strings.Join(b.Begun["stage"].Argv, "|"); got != c.argv {
			t.Errorf("%q runs %q", c.command, got)
		}
	}
}
