// Package agents answers beforehand, in the agents' own files, what they would
// ask at their first start, so that no dialog stops a launch that nobody
// watches.
//
// Only Claude Code needs it: Codex and OpenCode are configured by arguments and
// environment (see core/agents).
//
// Invariants:
//   - The files are the agent's and the box user's: single values are added,
//     everything else stays. A file that does not parse is named and left.
//   - A file in which nothing is missing is not written, because an agent that
//     runs may be writing it too.
//   - No key is written. Claude Code's own record of an approved key holds its
//     last characters alone.
package agents

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/madarco/agentbox/core/atomicfile"
	"github.com/madarco/agentbox/core/jsonobject"
)

// Box is what a start of an agent depends on.
type Box struct {
	// Home is the box user's home.
	Home string
	// Dir is the folder that the agent starts in.
	Dir string
	// Env looks up a variable that the agent will see, "" if it is not set.
	Env func(name string) string
}

// Seed answers what the agent of this name would ask. Agents without questions,
// and programs that are no agent, need nothing.
func Seed(agent string, b Box) error {
	if agent != "claude" {
		return nil
	}
	if err := seedClaude(b); err != nil {
		return fmt.Errorf("prepare the first start of %s: %w", agent, err)
	}
	return nil
}

// keyTail is how many characters of a key Claude Code remembers it by.
const keyTail = 20

// seedClaude works for version 2.1: which value keeps which dialog away was
// tried, one by one.
func seedClaude(b Box) error {
	state, settings := filepath.Join(b.Home, ".claude.json"), filepath.Join(b.Home, ".claude", "settings.json")
	if dir := b.Env("CLAUDE_CONFIG_DIR"); dir != "" {
		state, settings = filepath.Join(dir, ".claude.json"), filepath.Join(dir, "settings.json")
	}
	dir, err := filepath.EvalSymlinks(b.Dir) // the agent asks about where it really is
	if err != nil {
		return err
	}
	err = edit(state, func(o jsonobject.Object) bool {
		return oneOf(
			o.Set(true, "hasCompletedOnboarding"), // theme, login, and a probe of the vendor's host
			o.Set(true, "hasSeenAutoDefaultNotice"),
			o.Set(true, "hasSeenAutoDefaultNudge"),
			o.Set(true, "projects", dir, "hasTrustDialogAccepted"),
			o.Set(true, "projects", dir, "hasClaudeMdExternalIncludesWarningShown"),
			approveKey(o, b.Env("ANTHROPIC_API_KEY")),
		)
	})
	if err != nil {
		return err
	}
	return edit(settings, func(o jsonobject.Object) bool {
		return oneOf(
			o.Set(true, "skipDangerousModePermissionPrompt"),
			// The mode in which a model judges each action asks in the middle
			// of a turn where requests go through another host.
			o.Preset("disable", "disableAutoMode"),
			o.Preset("default", "permissions", "defaultMode"),
			o.Preset(true, "enableAllProjectMcpServers"),
		)
	})
}

func oneOf(changes ...bool) bool { return slices.Contains(changes, true) }

// approveKey notes that a key of the environment may be used. A no that is
// noted there was a no of the preselected answer: the user now says otherwise
// by launching with the key.
func approveKey(o jsonobject.Object, key string) bool {
	if key == "" {
		return false
	}
	tail := key[max(0, len(key)-keyTail):]
	approved, _ := o.Get("customApiKeyResponses", "approved").([]any)
	rejected, _ := o.Get("customApiKeyResponses", "rejected").([]any)
	isKey := func(v any) bool { return v == tail }
	if slices.ContainsFunc(approved, isKey) && !slices.ContainsFunc(rejected, isKey) {
		return false
	}
	others := slices.DeleteFunc(slices.Clone(rejected), isKey)
	if others == nil {
		others = []any{}
	}
	approved = append(slices.DeleteFunc(slices.Clone(approved), isKey), tail)
	o.Set(others, "customApiKeyResponses", "rejected")
	return o.Set(approved, "customApiKeyResponses", "approved") || len(others) != len(rejected)
}

// maxFile bounds a file of an agent, in bytes.
const maxFile = 64 << 20

// edit changes the object in a file, which need not exist, and writes it only
// where change tells that it did something.
func edit(path string, change func(jsonobject.Object) bool) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link of the user's stays one
	}
	text, err := read(path)
	if err != nil {
		return err
	}
	object, err := jsonobject.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w; repair it or move it away", path, err)
	}
	if !change(object) {
		return nil
	}
	if text, err = object.Text(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(path, text, 0o600)
}

// read is the text of a file, none if there is no such file.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: longer than %d bytes", path, maxFile)
	}
	return text, err
}
