package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/madarco/agentbox/core"
)

func TestIntegrations(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	for _, test := range []struct {
		file, service, project string
		enabled                bool
		scope                  string
	}{
		{file: "", service: "notion", project: "/p"},
		{file: "integrations:", service: "notion", project: "/p"},
		{file: "integrations: {notion: }", service: "notion", project: "/p"},
		{file: "integrations: {notion: {enabled: }}", service: "notion", project: "/p"},
		{file: "integrations: {notion: {enabled: true}}", service: "notion", project: "/p", enabled: true},
		{file: "integrations: {notion: {enabled: true}}", service: "linear", project: "/p"},
		{file: "integrations: {notion: {enabled: false}}", service: "notion", project: "/p"},
		{file: "integrations: {linear: {enabled: true, team: ENG}}", service: "linear", project: "", enabled: true, scope: "ENG"},
		{file: "integrations: {linear: {enabled: true, team: ENG, projects: {/p: {enabled: false}}}}", service: "linear", project: "/p", scope: "ENG"},
		{file: "integrations: {linear: {enabled: true, team: ENG, projects: {/p: {enabled: false}}}}", service: "linear", project: "/q", enabled: true, scope: "ENG"},
		{file: "integrations: {linear: {team: ENG, projects: {/p/: {enabled: true, team: OPS}}}}", service: "linear", project: "/p", enabled: true, scope: "OPS"},
		{file: "integrations: {notion: {projects: {/p: {enabled: true, root: " + id + "}}}}", service: "notion", project: "/p/below"},
	} {
		c, err := parse([]byte(test.file))
		if err != nil || len(c.Warnings) > 0 {
			t.Errorf("%s: %v, %v", test.file, err, c.Warnings)
		}
		if enabled, scope := c.Integration(test.service, test.project); enabled != test.enabled || scope != test.scope {
			t.Errorf("%s: %s in %s is %v, %q", test.file, test.service, test.project, enabled, scope)
		}
	}
	for _, file := range []string{
		"integrations: on", "integrations: {notion: on}", "integrations: {notion: {enabled: 'true'}}", "integrations: {notion: {enabled: true", "integrations: {notion: {root: ENG}}",
		"integrations: {linear: {team: 5}}", "integrations: {linear: {team: a/b}}", "integrations: {linear: {projects: [/p]}}", "integrations: {linear: {projects: {p: {enabled: true}}}}",
		"integrations: {linear: {projects: {/p: true}}}", "integrations: {linear: {projects: {/p: {on: true}}}}", "integrations: {linear: {projects: {/p: {enabled: 1}}}}",
	} {
		if c, err := parse([]byte(file)); err == nil {
			t.Errorf("%s: %+v", file, c)
		} else if !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestAProjectIsKnownByItsRealFolder(t *testing.T) {
	real, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	c, err := parse([]byte("integrations: {linear: {enabled: true, projects: {" + link + ": {enabled: false}}}}"))
	if err != nil {
		t.Fatal(err)
	}
	if enabled, _ := c.Integration("linear", real); enabled {
		t.Error("the link is another project")
	}
}
