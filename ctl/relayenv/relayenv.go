// Package relayenv is the box's knowledge of its relay: the file that the host
// writes through `agentbox-ctl setup`, and the process environment, which wins.
//
// Invariants:
//   - The file is mode 0600, replaced as a whole, and holds only the names of
//     this package: never a credential of the user or of the host's bridge.
//   - It is read when a value is needed, so a new token works at once.
package relayenv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core/atomicfile"
)

// The names that the file may hold.
const (
	// URL is the relay's address as the box's tools see it.
	URL = "AGENTBOX_RELAY_URL"
	// Token is the box's bearer token.
	Token = "AGENTBOX_RELAY_TOKEN"
	// HostURL is where the forwarder sends what it takes at URL.
	HostURL = "AGENTBOX_HOST_RELAY_URL"
	// BoxID and BoxName tell the box who it is.
	BoxID   = "AGENTBOX_BOX_ID"
	BoxName = "AGENTBOX_BOX_NAME"
)

var names = []string{URL, Token, HostURL, BoxID, BoxName}

// DefaultPath is where the file lies in a box, on a tmpfs.
const DefaultPath = "/run/agentbox/relay.env"

// maxFile bounds what is read; the file has five short lines.
const maxFile = 64 << 10

// Path is DefaultPath, unless AGENTBOX_RELAY_ENV_FILE names another file.
func Path() string {
	if path := os.Getenv("AGENTBOX_RELAY_ENV_FILE"); path != "" {
		return path
	}
	return DefaultPath
}

// Lookup is the value of one name, "" if nothing sets it. Each name is looked
// up on its own: a token from the environment goes with a URL from the file.
func Lookup(name string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	values, _ := Read(Path())
	return values[name]
}

// Read parses the file: lines NAME=value, split at the first "=", trimmed of
// space and carriage returns; other names are skipped. A missing file is empty.
func Read(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the relay's address: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read the relay's address: %w", err)
	}
	return parse(string(text)), nil
}

func parse(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); found && slices.Contains(names, name) {
			values[name] = strings.TrimSpace(value)
		}
	}
	return values
}

// Write replaces the file. It refuses names that the file may not hold, and
// values that would not read back.
func Write(path string, values map[string]string) error {
	var text strings.Builder
	for name, value := range values {
		if !slices.Contains(names, name) {
			return fmt.Errorf("write the relay's address: %q has no place in %s", name, path)
		}
		if strings.ContainsAny(value, "\r\n\x00") || strings.TrimSpace(value) != value {
			return fmt.Errorf("write the relay's address: the value of %s holds space at an end or a line break", name)
		}
	}
	for _, name := range names {
		if value, ok := values[name]; ok {
			fmt.Fprintf(&text, "%s=%s\n", name, value)
		}
	}
	return atomicfile.Write(path, []byte(text.String()), 0o600)
}
