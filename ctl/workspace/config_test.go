package workspace_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/setup"
	"github.com/madarco/agentbox/ctl/workspace"
	"github.com/madarco/agentbox/relay/gitgate"
)

// TestConfigurationIsTheUsersByValue: values arrive as they are, whatever is in
// them, and nothing else of the user's configuration does.
func TestConfigurationIsTheUsersByValue(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.write("a", "first\n")
	u.commit("first")
	u.remote()
	const name = "Ada \"the\\first\" \t# ; ünï"
	u.git("config", "user.name", name)
	u.git("config", "core.hooksPath", "/anywhere")
	u.git("config", "filter.x.smudge", "evil")
	u.git("config", "commit.gpgSign", "true")
	b, _ := u.box(gitgate.CaptureOptions{})
	want := map[string]string{
		"user.name":            name,
		"user.email":           "ada@example.com",
		"remote.origin.url":    strings.TrimSpace(u.git("remote", "get-url", "origin")),
		"remote.origin.fetch":  "+refs/heads/*:refs/remotes/origin/*\n+refs/agentbox/host/*:refs/remotes/host/*",
		"remote.pushdefault":   "origin",
		"branch.main.remote":   "origin",
		"branch.main.merge":    "refs/heads/main",
		"push.autosetupremote": "true",
		"commit.gpgsign":       "false",
		"core.hookspath":       "",
		"filter.x.smudge":      "",
	}
	got := map[string]string{}
	for key := range want {
		out, _ := b.try(b.dir, "config", "--get-all", key)
		got[key] = strings.TrimSuffix(out, "\n")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestNothingIsMadeOnTopOfARepository keeps a second setup from harming work.
func TestNothingIsMadeOnTopOfARepository(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.write("a", "work\n")
	err := workspace.Build(t.Context(), setup.Repo{Repo: core.Repo{BoxPath: core.BoxPath(u.dir)}}, strings.NewReader(""))
	if err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("got %v", err)
	}
}
