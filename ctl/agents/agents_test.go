package agents

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/jsonobject"
)

const key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"

func box(t *testing.T, env ...string) Box {
	t.Helper()
	work, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Box{Home: t.TempDir(), Dir: work, Env: func(name string) string {
		for _, e := range env {
			if n, v, _ := strings.Cut(e, "="); n == name {
				return v
			}
		}
		return ""
	}}
}

func object(t *testing.T, path string) jsonobject.Object {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o, err := jsonobject.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestClaudesQuestionsAreAnsweredInAnEmptyHome(t *testing.T) {
	t.Parallel()
	b := box(t, "ANTHROPIC_API_KEY="+key)
	if err := Seed("claude", b); err != nil {
		t.Fatal(err)
	}
	state, settings := filepath.Join(b.Home, ".claude.json"), filepath.Join(b.Home, ".claude/settings.json")
	o := object(t, state)
	for _, at := range [][]string{
		{"hasCompletedOnboarding"},
		{"hasSeenAutoDefaultNotice"},
		{"hasSeenAutoDefaultNudge"},
		{"projects", b.Dir, "hasTrustDialogAccepted"},
		{"projects", b.Dir, "hasClaudeMdExternalIncludesWarningShown"},
	} {
		if o.Get(at...) != true {
			t.Errorf("%v is %v", at, o.Get(at...))
		}
	}
	if got := o.Get("customApiKeyResponses", "approved"); !reflect.DeepEqual(got, []any{key[len(key)-20:]}) {
		t.Errorf("approved keys: %v", got)
	}
	s := object(t, settings)
	if s.Get("skipDangerousModePermissionPrompt") != true || s.Get("disableAutoMode") != "disable" || s.Get("permissions", "defaultMode") != "default" {
		t.Errorf("settings: %v", s)
	}
	for _, path := range []string{state, settings} {
		text, err := os.ReadFile(path)
		info, _ := os.Stat(path)
		if err != nil || strings.Contains(string(text), key) || info.Mode().Perm() != 0o600 {
			t.Errorf("%s (%v, %v): %s", path, info.Mode(), err, text)
		}
	}
}

func TestWhatTheAgentAndTheUserWroteStays(t *testing.T) {
	t.Parallel()
	b := box(t, "ANTHROPIC_API_KEY=short")
	state, settings := filepath.Join(b.Home, ".claude.json"), filepath.Join(b.Home, ".claude/settings.json")
	write(t, state, `{"userID": "u", "numStartups": 12345678901234567890, "projects": {"/other": {"allowedTools": ["x"]}, "`+b.Dir+`": {"cost": 1.50}},
		"customApiKeyResponses": {"approved": ["other"], "rejected": ["short", "bad"]}}`)
	write(t, settings, `{"permissions": {"defaultMode": "plan", "deny": ["Read(.env)"]}, "hooks": {"Stop": []}, "disableAutoMode": "mine", "enableAllProjectMcpServers": false}`)
	if err := Seed("claude", b); err != nil {
		t.Fatal(err)
	}
	o, s := object(t, state), object(t, settings)
	for _, c := range []struct {
		got  any
		want string
	}{
		{o.Get("userID"), `"u"`},
		{o.Get("numStartups"), `12345678901234567890`},
		{o.Get("projects", "/other"), `{"allowedTools":["x"]}`},
		{o.Get("projects", b.Dir, "cost"), `1.50`},
		{o.Get("customApiKeyResponses"), `{"approved":["other","short"],"rejected":["bad"]}`},
		{s.Get("permissions"), `{"defaultMode":"plan","deny":["Read(.env)"]}`},
		{s.Get("hooks"), `{"Stop":[]}`},
		{s.Get("disableAutoMode"), `"mine"`},
		{s.Get("enableAllProjectMcpServers"), `false`},
		{s.Get("skipDangerousModePermissionPrompt"), `true`},
	} {
		if text, err := json.Marshal(c.got); err != nil || string(text) != c.want {
			t.Errorf("got %s, want %s", text, c.want)
		}
	}
}

func TestAFileInWhichNothingIsMissingIsNotWritten(t *testing.T) {
	t.Parallel()
	b := box(t, "ANTHROPIC_API_KEY="+key)
	if err := Seed("claude", b); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".claude.json", ".claude/settings.json"} {
		path := filepath.Join(b.Home, name)
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := Seed("claude", b); err != nil {
			t.Fatal(err)
		}
		if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s was replaced, %v", name, err)
		}
	}
}

func TestADamagedFileIsNamedAndLeft(t *testing.T) {
	t.Parallel()
	b := box(t)
	path := filepath.Join(b.Home, ".claude/settings.json")
	write(t, path, `{"half":`)
	err := Seed("claude", b)
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Seed = %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != `{"half":` {
		t.Errorf("the file now holds %s", text)
	}
}

func TestALinkOfTheUsersStaysOneAndAConfigFolderIsUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := box(t, "CLAUDE_CONFIG_DIR="+dir)
	target := filepath.Join(t.TempDir(), "dotfile.json")
	write(t, target, `{"mine": 1}`)
	link := filepath.Join(dir, "settings.json")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := Seed("claude", b); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info, err)
	}
	if o := object(t, target); o.Get("mine") == nil || o.Get("disableAutoMode") != "disable" {
		t.Errorf("the file holds %v", o)
	}
	if o := object(t, filepath.Join(dir, ".claude.json")); o.Get("hasCompletedOnboarding") != true {
		t.Errorf("the state holds %v", o)
	}
}

func TestOthersNeedNothing(t *testing.T) {
	t.Parallel()
	b := box(t, "OPENAI_API_KEY="+key)
	for _, agent := range []string{"", "codex", "opencode", "../x"} {
		if err := Seed(agent, b); err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(b.Home); err != nil || len(entries) > 0 {
		t.Errorf("the home holds %v, %v", entries, err)
	}
}
