// Package agents is what AgentBox knows about the coding agents: one table, of
// how each is called, what of the caller's environment goes to it, and with
// which arguments it starts without asking anything.
//
// Invariants:
//   - Everything is a pure function of the table, the caller's environment and
//     the words that the user typed.
//   - A key is in the environment of its session alone, never in an argument.
//   - What the user typed wins over what is added.
package agents

import (
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
)

// Agent is one coding agent.
type Agent struct {
	// Name is the agent's name, its program and its session.
	Name string
	// Title is how its vendor writes it.
	Title string
	// Keys are the variables that log it in; one of them suffices.
	Keys []string
	// settings are further variables of the caller that go to it.
	settings []string
	// always is set unless the caller set it: updates and telemetry off, and
	// what a box needs otherwise.
	always []string
	// permits are flags by which the user chooses permissions; one of them
	// keeps back those that skip every question.
	permits []string
	// headless are words by which it prints an answer and ends.
	headless []string
	// derived adds variables that follow from the caller's.
	derived func(caller Environment) []string
	// arguments go before the user's.
	arguments func(l Launch) []string
}

// Environment looks a variable up; "" stands for one that is not set.
type Environment func(name string) string

// pushPatience is how long the shell tool of an agent may take for a command,
// in milliseconds: as long as a question waits for its answer by default, so
// that a push does not lose the one who asked.
const pushPatience = "86400000"

// bashTimeouts are Claude Code's names for it: where its model gives no limit,
// and the most that it may give.
var bashTimeouts = []string{"BASH_DEFAULT_TIMEOUT_MS", "BASH_MAX_TIMEOUT_MS"}

// All are the agents, in the order in which people see them.
var All = []Agent{
	{
		Name: "claude", Title: "Claude Code",
		Keys: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"},
		settings: append([]string{
			"ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL",
			"ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL",
			"CLAUDE_EFFORT", "CLAUDE_CODE_EFFORT_LEVEL", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "MAX_THINKING_TOKENS",
		}, bashTimeouts...),
		always: []string{
			"DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			bashTimeouts[0] + "=" + pushPatience, bashTimeouts[1] + "=" + pushPatience,
		},
		permits:   []string{"--dangerously-skip-permissions", "--permission-mode"},
		headless:  []string{"-p", "--print"},
		arguments: claudeArguments,
	},
	{
		Name: "codex", Title: "Codex",
		Keys:      []string{"OPENAI_API_KEY", "CODEX_API_KEY"},
		settings:  []string{"OPENAI_BASE_URL"},
		permits:   []string{"--dangerously-bypass-approvals-and-sandbox", "--yolo", "--full-auto", "-a", "--ask-for-approval", "-s", "--sandbox"},
		headless:  []string{"exec", "e"},
		arguments: codexArguments,
	},
	{
		Name: "opencode", Title: "OpenCode",
		Keys: []string{
			"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY",
			"GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY", "XAI_API_KEY", "OPENCODE_API_KEY", "OPENCODE_AUTH_CONTENT", openCodeConfig,
		},
		settings: openCodeSwitches,
		// It waits minutes for its list of models where it can't be fetched.
		always:   []string{"OPENCODE_DISABLE_AUTOUPDATE=1", openCodeSwitches[0] + "=1", openCodeSwitches[1] + "=1"},
		headless: []string{"run"},
		derived:  openCodeEnvironment,
	},
}

// Lookup finds an agent by its name.
func Lookup(name string) (Agent, bool) {
	i := slices.IndexFunc(All, func(a Agent) bool { return a.Name == name })
	if i < 0 {
		return Agent{}, false
	}
	return All[i], true
}

// Usable tells whether the caller's environment logs the agent in.
func (a Agent) Usable(caller Environment) bool {
	return slices.ContainsFunc(a.Keys, func(name string) bool { return caller(name) != "" })
}

// Environ is what a session of the agent gets on top of the box's environment:
// the caller's keys and settings, and what is always set.
func (a Agent) Environ(caller Environment) []string {
	var env []string
	for _, name := range slices.Concat(a.Keys, a.settings) {
		if value := caller(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	if a.derived != nil {
		env = set(env, a.derived(caller))
	}
	for _, entry := range a.always {
		if name, _, _ := strings.Cut(entry, "="); !has(env, name) {
			env = append(env, entry)
		}
	}
	return env
}

// set replaces entries of env by those of the same name in over.
func set(env, over []string) []string {
	return append(slices.DeleteFunc(env, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return has(over, name)
	}), over...)
}

func has(env []string, name string) bool {
	return slices.ContainsFunc(env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
}

// Launch is one start of an agent.
type Launch struct {
	// Dir is the folder that it works in.
	Dir core.BoxPath
	// Caller is the environment of who starts it.
	Caller Environment
	// Ask leaves the agent's own questions in place.
	Ask bool
	// Args are the user's, passed on as they are.
	Args []string
}

// Command is what starts the agent so that nothing asks before it works.
func (a Agent) Command(l Launch) []string {
	argv := []string{a.Name}
	if a.arguments != nil {
		l.Ask = l.Ask || slices.ContainsFunc(l.Args, a.permission)
		argv = append(argv, a.arguments(l)...)
	}
	return append(argv, l.Args...)
}

// permission tells whether a word is a flag by which the user chooses what the
// agent may do unasked. A prompt that happens to be one is none: a flag is
// looked for by its exact spelling or with "=".
func (a Agent) permission(word string) bool {
	name, _, _ := strings.Cut(word, "=")
	return slices.Contains(a.permits, name)
}

// Headless tells whether the user's arguments make the agent print an answer
// and end, so that it needs no terminal. For a program with subcommands the
// first word counts, for others every flag.
func (a Agent) Headless(args []string) bool {
	for i, word := range args {
		if slices.Contains(a.headless, word) && (i == 0 || strings.HasPrefix(word, "-")) {
			return true
		}
	}
	return false
}

func claudeArguments(l Launch) []string {
	if l.Ask {
		return nil
	}
	return []string{"--dangerously-skip-permissions"}
}
