package agents

import (
	"encoding/json"
	"strings"
)

// openCodeConfig is the variable from which OpenCode takes a whole
// configuration; it is laid over those in files.
const openCodeConfig = "OPENCODE_CONFIG_CONTENT"

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
	config := map[string]any{}
	if text := caller(openCodeConfig); text != "" && json.Unmarshal([]byte(text), &config) != nil {
		return []string{openCodeConfig + "=" + text}
	}
	if config == nil { // the text was null
		config = map[string]any{}
	}
	preset(config, false, "autoupdate")
	preset(config, "disabled", "share")
	for _, b := range openCodeBases {
		if base := strings.TrimRight(caller(b.variable), "/"); base != "" {
			preset(config, strings.TrimSuffix(base, b.version)+b.version, "provider", b.provider, "options", "baseURL")
		}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil // it was decoded from JSON
	}
	return []string{openCodeConfig + "=" + string(text)}
}

// preset sets the value at a path of objects, unless there is one, or
// something that is no object stands in the way.
func preset(object map[string]any, value any, path ...string) {
	last := len(path) - 1
	for _, key := range path[:last] {
		next, ok := object[key].(map[string]any)
		if !ok {
			if object[key] != nil {
				return
			}
			next = map[string]any{}
			object[key] = next
		}
		object = next
	}
	if _, there := object[path[last]]; !there {
		object[path[last]] = value
	}
}
