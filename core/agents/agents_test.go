package agents_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/agents"
	"github.com/madarco/agentbox/core/session"
)

func environment(entries ...string) agents.Environment {
	return func(name string) string {
		for _, e := range entries {
			if n, value, _ := strings.Cut(e, "="); n == name {
				return value
			}
		}
		return ""
	}
}

func agent(t *testing.T, name string) agents.Agent {
	t.Helper()
	a, ok := agents.Lookup(name)
	if !ok {
		t.Fatalf("no agent %s", name)
	}
	return a
}

func TestEveryAgentHasANameForItsSession(t *testing.T) {
	t.Parallel()
	for _, a := range agents.All {
		if _, err := session.ParseName(a.Name); err != nil || a.Title == "" || len(a.Keys) == 0 {
			t.Errorf("%+v: %v", a, err)
		}
	}
	if _, ok := agents.Lookup("rm"); ok {
		t.Error("rm is an agent")
	}
}

func TestWhatOfTheCallersEnvironmentGoesToASession(t *testing.T) {
	t.Parallel()
	caller := environment(
		"ANTHROPIC_API_KEY=ka", "ANTHROPIC_BASE_URL=http://gate/", "CLAUDE_EFFORT=high", "OPENAI_API_KEY=ko", "CODEX_API_KEY=kc",
		"GROQ_API_KEY=kg", "ANTHROPIC_MODEL=", "AWS_SECRET_ACCESS_KEY=never", "GITHUB_TOKEN=never", "PATH=/usr/bin", "BASH_MAX_TIMEOUT_MS=5", "OPENCODE_DISABLE_MODELS_FETCH=0",
	)
	for name, want := range map[string][]string{
		"claude": {
			"ANTHROPIC_API_KEY=ka", "ANTHROPIC_BASE_URL=http://gate/", "CLAUDE_EFFORT=high", "BASH_MAX_TIMEOUT_MS=5",
			"DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"BASH_DEFAULT_TIMEOUT_MS=86400000",
		},
		"codex": {"OPENAI_API_KEY=ko", "CODEX_API_KEY=kc"},
		"opencode": {
			"ANTHROPIC_API_KEY=ka", "OPENAI_API_KEY=ko", "GROQ_API_KEY=kg", "OPENCODE_DISABLE_MODELS_FETCH=0",
			`OPENCODE_CONFIG_CONTENT={"autoupdate":false,"provider":{"anthropic":{"options":{"baseURL":"http://gate/v1"}}},"share":"disabled"}`,
			"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		},
	} {
		if got := agent(t, name).Environ(caller); !slices.Equal(got, want) {
			t.Errorf("%s gets\n%q, want\n%q", name, got, want)
		}
	}
}

func TestAnAgentIsUsableWithOneOfItsKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, entry string
		want        bool
	}{
		{"claude", "CLAUDE_CODE_OAUTH_TOKEN=t", true},
		{"claude", "ANTHROPIC_AUTH_TOKEN=t", true},
		{"claude", "ANTHROPIC_API_KEY=", false},
		{"claude", "ANTHROPIC_BASE_URL=http://x", false},
		{"claude", "OPENAI_API_KEY=k", false},
		{"codex", "OPENAI_API_KEY=k", true},
		{"codex", "OPENAI_BASE_URL=http://x", false},
		{"opencode", "OPENROUTER_API_KEY=k", true},
		{"opencode", "OPENCODE_CONFIG_CONTENT={}", true},
	} {
		if got := agent(t, c.name).Usable(environment(c.entry)); got != c.want {
			t.Errorf("%s with %s: %v", c.name, c.entry, got)
		}
	}
}

func TestPermissionsAreSkippedUnlessTheUserChooses(t *testing.T) {
	t.Parallel()
	const claude, codex = "--dangerously-skip-permissions", `approval_policy="never"`
	for _, c := range []struct {
		name, flag string
		ask        bool
		args       []string
		skips      bool
	}{
		{"claude", claude, false, nil, true},
		{"claude", claude, false, []string{"-p", "hi"}, true},
		{"claude", claude, true, nil, false},
		{"claude", claude, false, []string{"--permission-mode", "plan"}, false},
		{"claude", claude, false, []string{"--permission-mode=plan"}, false},
		{"claude", claude, false, []string{"explain --permission-mode to me"}, true},
		{"codex", codex, false, nil, true},
		{"codex", codex, false, []string{"exec", "hi"}, true},
		{"codex", codex, true, nil, false},
		{"codex", codex, false, []string{"--yolo"}, false},
		{"codex", codex, false, []string{"--full-auto"}, false},
		{"codex", codex, false, []string{"-a", "on-request"}, false},
		{"codex", codex, false, []string{"--ask-for-approval=on-request"}, false},
		{"codex", codex, false, []string{"-s", "read-only"}, false},
		{"codex", codex, false, []string{"--sandbox", "read-only"}, false},
	} {
		got := agent(t, c.name).Command(agents.Launch{Dir: "/workspace", Caller: environment(), Ask: c.ask, Args: c.args})
		added, rest := got[1:len(got)-len(c.args)], got[len(got)-len(c.args):]
		if slices.Contains(added, c.flag) != c.skips || !slices.Equal(rest, c.args) || got[0] != c.name {
			t.Errorf("%s %q (ask %v) is started as %q", c.name, c.args, c.ask, got)
		}
	}
	if got := agent(t, "opencode").Command(agents.Launch{Args: []string{"run", "x"}}); !slices.Equal(got, []string{"opencode", "run", "x"}) {
		t.Errorf("opencode is started as %q", got)
	}
}

func TestCodexTakesItsKeyFromTheEnvironment(t *testing.T) {
	t.Parallel()
	caller := environment("CODEX_API_KEY=sk-secret", `OPENAI_BASE_URL=http://gate/"v1`)
	got := strings.Join(agent(t, "codex").Command(agents.Launch{Dir: `/work "it"`, Caller: caller}), " ")
	for _, want := range []string{
		`-c projects={"/work \"it\""={trust_level="trusted"}}`,
		`-c model_providers.agentbox={name="OpenAI",base_url="http://gate/\"v1",env_key="CODEX_API_KEY",wire_api="responses"}`,
		`-c features.daemon_auto_start=false`, `-c features.shell_snapshot=false`, `-c check_for_update_on_startup=false`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
	if strings.Contains(got, "sk-secret") {
		t.Errorf("the key is an argument: %s", got)
	}
	both := strings.Join(agent(t, "codex").Command(agents.Launch{Caller: environment("OPENAI_API_KEY=a", "CODEX_API_KEY=b")}), " ")
	if !strings.Contains(both, `base_url="https://api.openai.com/v1",env_key="OPENAI_API_KEY"`) {
		t.Errorf("with both keys: %s", both)
	}
	none := strings.Join(agent(t, "codex").Command(agents.Launch{Caller: environment()}), " ")
	if strings.Contains(none, "model_provider") {
		t.Errorf("without a key: %s", none)
	}
}

func TestHeadless(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		want bool
	}{
		{"claude", []string{"-p", "hi"}, true},
		{"claude", []string{"--model", "x", "--print"}, true},
		{"claude", []string{"fix -p"}, false},
		{"codex", []string{"exec", "hi"}, true},
		{"codex", []string{"please", "exec"}, false},
		{"opencode", []string{"run", "hi"}, true},
		{"opencode", nil, false},
	} {
		if got := agent(t, c.name).Headless(c.args); got != c.want {
			t.Errorf("%s %q: %v", c.name, c.args, got)
		}
	}
}

func TestOpenCodesConfigurationOfTheCallerStays(t *testing.T) {
	t.Parallel()
	content := func(entries ...string) string {
		for _, e := range agent(t, "opencode").Environ(environment(entries...)) {
			if text, ok := strings.CutPrefix(e, "OPENCODE_CONFIG_CONTENT="); ok {
				return text
			}
		}
		return ""
	}
	var got struct {
		Autoupdate bool
		Share      string
		Model      string
		Provider   map[string]struct{ Options map[string]string }
	}
	text := content(`OPENCODE_CONFIG_CONTENT={"autoupdate":true,"model":"a/b","provider":{"openai":{"options":{"baseURL":"http://mine/v1"}}}}`,
		"OPENAI_BASE_URL=http://gate/v1/", "ANTHROPIC_BASE_URL=http://a/v1")
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if !got.Autoupdate || got.Share != "disabled" || got.Model != "a/b" ||
		got.Provider["openai"].Options["baseURL"] != "http://mine/v1" || got.Provider["anthropic"].Options["baseURL"] != "http://a/v1" {
		t.Errorf("got %s", text)
	}
	if got := content("OPENAI_BASE_URL=http://gate/openai/"); !strings.Contains(got, `"baseURL":"http://gate/openai"`) {
		t.Errorf("got %s", got)
	}
	for _, odd := range []string{`no json`, `[1]`, `null`} {
		if got := content("OPENCODE_CONFIG_CONTENT=" + odd); got != odd {
			t.Errorf("%s becomes %s", odd, got)
		}
	}
	if got := content(`OPENCODE_CONFIG_CONTENT={"provider":"odd"}`, "OPENAI_BASE_URL=http://gate"); !strings.Contains(got, `"provider":"odd"`) {
		t.Errorf("got %s", got)
	}
}
