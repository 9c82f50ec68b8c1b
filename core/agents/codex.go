package agents

import (
	"fmt"
	"strings"
)

// codexArguments configure Codex by -c alone: nothing is written that a file of
// the user's could get lost in, and a -c of the user's comes later and wins.
//
// That it may do everything unasked is configured too. The flag for it is not
// taken in front of every subcommand, and a flag of the user's overrides a
// setting.
func codexArguments(l Launch) []string {
	settings := []string{
		"check_for_update_on_startup=false",
		"features.daemon_auto_start=false", // it would copy itself into the home and outlive the session
		"features.shell_snapshot=false",    // it would write the environment, keys and all, into the home
		"analytics.enabled=false",
		"feedback.enabled=false",
		fmt.Sprintf("projects={%s={trust_level=%s}}", tomlString(string(l.Dir)), tomlString("trusted")),
	}
	settings = append(settings, codexProvider(l.Caller)...)
	if !l.Ask {
		settings = append(settings, `approval_policy="never"`, `sandbox_mode="danger-full-access"`)
	}
	var argv []string
	for _, s := range settings {
		argv = append(argv, "-c", s)
	}
	// A project's hooks are the project's, and run in the box.
	return append(argv, "--dangerously-bypass-hook-trust")
}

// openAI is where Codex's own provider goes.
const openAI = "https://api.openai.com/v1"

// codexProvider makes Codex take its key from the environment: its own provider
// wants a login file, which would put the key on disk. No variable of Codex's
// sets the address either. Without a key its own login stays.
func codexProvider(caller Environment) []string {
	for _, name := range []string{"OPENAI_API_KEY", "CODEX_API_KEY"} {
		if caller(name) == "" {
			continue
		}
		base := caller("OPENAI_BASE_URL")
		if base == "" {
			base = openAI
		}
		return []string{
			`model_provider="agentbox"`,
			fmt.Sprintf(`model_providers.agentbox={name="OpenAI",base_url=%s,env_key=%s,wire_api="responses"}`, tomlString(base), tomlString(name)),
		}
	}
	return nil
}

// tomlString is a basic string of TOML 1.0: quotes, backslashes and control
// characters are escaped.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
