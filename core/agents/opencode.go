package agents

import (
	"encoding/json"
	"strings"

	"github.com/madarco/agentbox/core/jsonobject"
)

// openCodeConfig is the variable from which OpenCode takes a whole
// configuration; it is laid over those in files.
const openCodeConfig = "OPENCODE_CONFIG_CONTENT"

// openCodeSwitches keep OpenCode from fetching what its version brings along or
// a project's own tools do: lists of models and language servers. A caller who
// wants that sets them to 0.
var openCodeSwitches = []string{"OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD"}

// openCodeBases are the variables of other agents that hold a provider's
// address, by OpenCode's name of that provider. OpenCode wants it with the
// version of the API, which Claude Code adds by itself.
var openCodeBases = []struct{ variable, provider, version string }{
	{"ANTHROPIC_BASE_URL", "anthropic", "/v1"},
	{"OPENAI_BASE_URL", "openai", ""},
}

// openCodeEnvironment configures OpenCode by its environment alone: no updates,
// nothing shared, and the caller's addresses. What the caller configured so
// stays; a text of theirs that is no object is theirs to be told about.
func openCodeEnvironment(caller Environment) []string {
	config, err := jsonobject.Parse([]byte(caller(openCodeConfig)))
	if err != nil {
		return []string{openCodeConfig + "=" + caller(openCodeConfig)}
	}
	config.Preset(false, "autoupdate")
	config.Preset("disabled", "share")
	for _, b := range openCodeBases {
		if base := strings.TrimRight(caller(b.variable), "/"); base != "" {
			config.Preset(strings.TrimSuffix(base, b.version)+b.version, "provider", b.provider, "options", "baseURL")
		}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil // it was decoded from JSON
	}
	return []string{openCodeConfig + "=" + string(text)}
}
