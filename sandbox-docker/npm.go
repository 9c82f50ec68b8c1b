package sandboxdocker

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/madarco/agentbox/core"
)

// npmConfigs are where npm keeps the configuration of a whole machine; which
// of them it reads depends on where it is installed.
var npmConfigs = []string{"/etc/npmrc", "/usr/local/etc/npmrc", "/usr/etc/npmrc"}

// npmRegistry is the registry that the user has set for npm, "" for npm's own:
// by a variable, in the user's npmrc, in the machine's. A project's npmrc does
// not count, and a login is not taken over.
func npmRegistry(environ []string, read func(string) ([]byte, error), home string) (string, error) {
	settings := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if key, found := strings.CutPrefix(strings.ToLower(name), "npm_config_"); found && value != "" {
			settings[key] = value // npm too takes these in any case
		}
	}
	files := npmConfigs
	switch own := settings["userconfig"]; {
	case own != "":
		files = append([]string{own}, files...)
	case home != "":
		files = append([]string{filepath.Join(home, ".npmrc")}, files...)
	}
	registry := settings["registry"]
	for _, file := range files {
		if registry != "" {
			break
		}
		text, err := read(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("find npm's registry: %w", err)
		}
		registry = npmSetting(string(text), "registry")
	}
	if registry == "" {
		return "", nil
	}
	at, err := url.Parse(registry)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		return "", fmt.Errorf("npm's registry in your settings: %w: it must be an http or https address without a login", core.ErrInvalid)
	}
	return registry, nil
}

// npmSetting finds a key's value in an npmrc, which is an INI file; what stands
// in a section is not npm's.
func npmSetting(text, key string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			break
		}
		name, value, found := strings.Cut(line, "=")
		if found && strings.TrimSpace(name) == key {
			return strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return ""
}
