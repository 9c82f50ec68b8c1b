package modelserver_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/madarco/agentbox/e2e/modelserver"
	"github.com/madarco/agentbox/e2e/terminal"
)

const key = "sk-test-0123456789abcdefghijklmnopqrstuvwxyz"

// agent is how a real agent starts without asking anything.
type agent struct {
	env      []string
	files    map[string]string // below HOME
	headless []string          // the prompt follows
	tui      []string
	ready    string // on the screen when it takes a prompt
}

// claude is how Claude Code starts. Only the TUI reads the files.
func claude(url, project string) agent {
	return agent{
		env: []string{
			"ANTHROPIC_BASE_URL=" + url,
			"ANTHROPIC_API_KEY=" + key,
			"DISABLE_AUTOUPDATER=1",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"IS_SANDBOX=1", // lets root skip permissions
		},
		files: map[string]string{
			".claude.json": fmt.Sprintf(`{
				"hasCompletedOnboarding": true,
				"hasSeenAutoDefaultNotice": true,
				"hasSeenAutoDefaultNudge": true,
				"customApiKeyResponses": {"approved": [%q], "rejected": []},
				"projects": {%q: {"hasTrustDialogAccepted": true, "hasClaudeMdExternalIncludesWarningShown": true}}
			}`, key[len(key)-20:], project),
			".claude/settings.json": `{
				"skipDangerousModePermissionPrompt": true,
				"disableAutoMode": "disable",
				"enableAllProjectMcpServers": true,
				"permissions": {"defaultMode": "default"}
			}`,
		},
		headless: []string{"claude", "--dangerously-skip-permissions", "-p"},
		tui:      []string{"claude", "--dangerously-skip-permissions"},
		ready:    "bypass permissions on",
	}
}

func codex(url, project string) agent {
	bypass := []string{"--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"}
	return agent{
		files: map[string]string{
			".codex/auth.json": fmt.Sprintf(`{"auth_mode": "apikey", "OPENAI_API_KEY": %q}`, key),
			".codex/config.toml": fmt.Sprintf(`openai_base_url = %q
check_for_update_on_startup = false

[features]
daemon_auto_start = false

[analytics]
enabled = false

[feedback]
enabled = false

[projects.%q]
trust_level = "trusted"
`, url+"/v1", project),
		},
		headless: append([]string{"codex", "exec"}, bypass...),
		tui:      append([]string{"codex"}, bypass...),
		ready:    "Ask Codex to do anything",
	}
}

func openCode(url, _ string) agent {
	return agent{
		env: []string{
			"OPENCODE_DISABLE_AUTOUPDATE=1",
			"OPENCODE_DISABLE_MODELS_FETCH=1",
			"OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		},
		files: map[string]string{".config/opencode/opencode.json": fmt.Sprintf(`{
			"autoupdate": false,
			"share": "disabled",
			"model": "scripted/scripted",
			"small_model": "scripted/scripted-small",
			"provider": {"scripted": {
				"npm": "@ai-sdk/openai-compatible",
				"options": {"baseURL": %q, "apiKey": %q},
				"models": {
					"scripted": {"limit": {"context": 200000, "output": 8000}},
					"scripted-small": {"limit": {"context": 200000, "output": 8000}}
				}
			}}
		}`, url+"/v1", key)},
		headless: []string{"opencode", "run"},
		tui:      []string{"opencode"},
		ready:    "Ask anything",
	}
}

var agents = map[string]func(url, project string) agent{"claude": claude, "codex": codex, "opencode": openCode}

// hostileProject holds what a project's files may make an agent ask at its start.
var hostileProject = map[string]string{
	".mcp.json":             `{"mcpServers": {"demo": {"command": "cat"}}}`,
	"CLAUDE.md":             "See @/etc/hostname\n",
	".claude/settings.json": `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}`,
	".codex/config.toml":    "[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"true\"\n",
}

// stage is an agent's empty home, a project and a server with the script.
type stage struct {
	agent
	server        *modelserver.Server
	home, project string
	env           []string
}

// patience bounds what a machine under load may take.
const patience = 5 * time.Minute

func prepare(t *testing.T, name string) *stage {
	t.Helper()
	s := &stage{server: modelserver.New(modelserver.Options{Key: key}), home: t.TempDir(), project: t.TempDir()}
	script, err := os.Open("testdata/commit.json")
	if err != nil {
		t.Fatal(err)
	}
	defer script.Close()
	steps, err := modelserver.ParseScript(script)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.server.Add("commit", steps); err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(s.server)
	t.Cleanup(listener.Close)
	s.agent = agents[name](listener.URL+"/commit", s.project)
	s.agent.files[".gitconfig"] = "[user]\n\tname = Tester\n\temail = tester@example.com\n[init]\n\tdefaultBranch = main\n"
	write(t, s.home, s.agent.files)
	s.env = append([]string{
		"HOME=" + s.home, "PATH=" + installed(t) + ":" + os.Getenv("PATH"), "LANG=C.UTF-8",
		"TERM=screen-256color", "TMPDIR=" + t.TempDir(),
	}, s.agent.env...)
	s.git(t, "init", "-q")
	return s
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// installed is the folder of the agents' programs.
func installed(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../../scripts/agents", "--print").CombinedOutput()
	if err != nil {
		message := strings.TrimSpace(string(out))
		if os.Getenv("CI") != "" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	return strings.TrimSpace(string(out))
}

func (s *stage) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Env = s.project, s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", args, err, out)
	}
	return string(out)
}

// checkWork tells whether the first turn of the script was carried out.
func (s *stage) checkWork(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.project, "greeting.txt"))
	if err != nil || string(text) != "hello\nwide\nworld\n" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	if got := s.git(t, "log", "--format=%s by %an", "--stat=60", "--", "greeting.txt"); !strings.HasPrefix(got, "feat: greet by Tester\n") {
		t.Errorf("the log says %q", got)
	}
}

// checkRequests holds what the server saw against the steps that are expected
// to be answered, in that order.
func (s *stage) checkRequests(t *testing.T, name string, want ...int) {
	t.Helper()
	var steps []int
	for _, r := range s.server.Requests() {
		if r.Kind != modelserver.Probe && (r.Agent != name || r.Credential != key) {
			t.Errorf("request of agent %q with key %q", r.Agent, r.Credential)
		}
		switch {
		case r.Kind == modelserver.Turn:
			steps = append(steps, r.Step)
			if r.Result != nil && r.Result.Step == 5 && !strings.Contains(r.Result.Output, "committed") {
				t.Errorf("the commit gave %q", r.Result.Output)
			}
		case r.Kind == modelserver.Unknown, r.Kind == modelserver.Refused && r.Method != "GET":
			t.Errorf("%s %s: %s", r.Method, r.Path, r.Error)
		}
	}
	if !slices.Equal(steps, want) {
		t.Errorf("the steps %v were answered, want %v", steps, want)
	}
}

func TestRealAgentsPlayAScriptHeadless(t *testing.T) {
	for name := range agents {
		t.Run(name, func(t *testing.T) {
			s := prepare(t, name)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			out := s.run(ctx, t, "please greet")
			if !strings.Contains(out, "The greeting is committed.") {
				t.Errorf("printed %s", out)
			}
			s.checkWork(t)
			s.checkRequests(t, name, 1, 3, 4, 5, 6)
		})
	}
}

// run starts the agent headless and returns what it printed.
func (s *stage) run(ctx context.Context, t *testing.T, prompt string) string {
	t.Helper()
	cmd := exec.Command("env", append(slices.Clone(s.headless), prompt)...)
	cmd.Dir, cmd.Env = s.project, s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // agents have children
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v, requests %+v, printed\n%s", s.headless[0], err, s.server.Requests(), out.String())
	}
	return out.String()
}

// Each agent starts three times, the first time in an empty home, in a project
// whose files would make it ask: what is typed must reach the model.
func TestRealAgentsPlayAScriptInATerminal(t *testing.T) {
	for name := range agents {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath("tmux"); err != nil {
				if os.Getenv("CI") != "" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			s := prepare(t, name)
			write(t, s.project, hostileProject)
			s.start(t, "please greet", func(term *terminal.Terminal) {
				term.Wait("The greeting is committed.")
				term.Enter("and read the log")
				term.Wait("The log is read.")
			})
			s.checkWork(t)
			s.checkRequests(t, name, 1, 3, 4, 5, 6, 7, 8)
			for _, prompt := range []string{"greet again", "greet a last time"} {
				s.start(t, prompt, func(*terminal.Terminal) {})
			}
		})
	}
}

// start starts the agent in a terminal, sees that a prompt which is typed
// reaches the model, and ends the agent after more.
func (s *stage) start(t *testing.T, prompt string, more func(*terminal.Terminal)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	term := terminal.Open(ctx, t, s.project, s.env, append([]string{"env"}, s.tui...)...)
	defer term.Close()
	term.Wait(s.ready)
	term.Enter(prompt)
	if _, err := s.server.Await(ctx, func(r modelserver.Request) bool {
		return r.Kind == modelserver.Turn && strings.Contains(r.Prompt, prompt)
	}); err != nil {
		screen, _ := term.Tmux("capture-pane", "-p")
		t.Fatalf("the prompt does not reach the model: %v\n%s", err, screen)
	}
	more(term)
}
