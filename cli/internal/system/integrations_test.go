package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/cli/internal/config"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/integrations"
)

func TestTryIntegration(t *testing.T) {
	linear, _ := integrations.Find("linear")
	const on = "integrations: {linear: {enabled: true}}"
	for _, test := range []struct {
		name, config, program, found, problem, next string
	}{
		{name: "off", found: "off; integrations.linear.enabled in config.yaml switches it on"},
		{name: "unreadable", config: "integrations: {", problem: "invalid"},
		{name: "missing", config: on, problem: "missing", next: linear.Detect.Install},
		{name: "logged out", config: on, program: `[ "$1" = --version ]`, problem: "not logged in", next: linear.Detect.Login},
		{name: "ready", config: on, program: `[ "$1" = --version ] && echo 2.6.0; cat`, found: "2.6.0"},
		{name: "off here", config: "integrations: {linear: {enabled: true, projects: {HERE: {enabled: false}}}}", found: "off; integrations.linear.enabled in config.yaml switches it on"},
	} {
		t.Run(test.name, func(t *testing.T) {
			home, bin := core.Home(t.TempDir()), t.TempDir()
			here, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(here)
			t.Setenv("PATH", bin+":/usr/bin:/bin")
			if err := os.WriteFile(config.Path(home), []byte(strings.ReplaceAll(test.config, "HERE", here)), 0o600); err != nil {
				t.Fatal(err)
			}
			if test.program != "" {
				if err := os.WriteFile(filepath.Join(bin, "linear"), []byte("#!/bin/sh\n"+test.program+"\n"), 0o755); err != nil { //nolint:gosec // a program
					t.Fatal(err)
				}
			}
			sys := &System{Factory: &factory.Factory{Getwd: os.Getwd, Home: func() (core.Home, error) { return home, nil }}}
			found, err := sys.tryIntegration(t.Context(), linear)
			if found != test.found || (err != nil) != (test.problem != "") {
				t.Fatalf("got %q, %v", found, err)
			}
			if err != nil && (!strings.Contains(err.Error(), test.problem) || test.next != "" && fail.Of(err).Next != test.next) {
				t.Errorf("got %v, next %q", err, fail.Of(err).Next)
			}
		})
	}
}
