package workspace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/setup"
	"github.com/madarco/agentbox/ctl/workspace"
)

const endpoint = "http://127.0.0.1:8788/git/0123456789abcdef"

func TestSystemConfigLeadsGitToTheRelay(t *testing.T) {
	t.Parallel()
	text := workspace.SystemConfig([]setup.Repo{{
		Repo:     core.Repo{BoxPath: core.WorkspacePath},
		Endpoint: endpoint,
		Rewrites: []string{"https://example.com/acme/shop.git", "git@example.com:acme/shop.git", `odd "path" \ with	tab`},
	}})
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"url." + endpoint + ".insteadof":     "https://example.com/acme/shop.git\ngit@example.com:acme/shop.git\n" + `odd "path" \ with	tab`,
		"credential." + endpoint + ".helper": "",
		"http." + endpoint + ".version":      "HTTP/1.1",
		"http." + endpoint + ".postbuffer":   "4194304",
		"push.autosetupremote":               "true",
		"safe.directory":                     "/workspace",
	}
	got := map[string]string{}
	for key := range want {
		out, err := exec.CommandContext(t.Context(), "git", "config", "--file", file, "--get-all", key).Output()
		if err != nil {
			t.Errorf("%s: %v", key, err)
		}
		got[key] = strings.TrimSuffix(string(out), "\n")
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
