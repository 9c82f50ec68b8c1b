package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/madarco/agentbox/core"
)

// ErrTooWide: the folder holds more than a project, so that a box of it would
// see the user's own files or the records of all boxes.
var ErrTooWide = errors.New("the folder is no project of its own")

// Guard refuses a folder that is the user's home or lies above it, and one
// that holds the state folder or lies in it. Links are resolved first.
func Guard(folder, userHome string, home core.Home) error {
	dir, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return fmt.Errorf("look at the project: %w", err)
	}
	if dir == resolved(userHome) {
		return fmt.Errorf("project %s: %w: it is your home folder, and a box would get all that is in it", dir, ErrTooWide)
	}
	if within(resolved(userHome), dir) {
		return fmt.Errorf("project %s: %w: your home folder lies in it", dir, ErrTooWide)
	}
	state := resolved(string(home))
	if within(state, dir) || within(dir, state) {
		return fmt.Errorf("project %s: %w: it overlaps agentbox's own state in %s", dir, ErrTooWide, state)
	}
	return nil
}

// within tells whether path is dir or lies below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// resolved follows the links of path as far as it exists.
func resolved(path string) string {
	for dir, rest := filepath.Clean(path), ""; ; {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		} else if !errors.Is(err, os.ErrNotExist) || dir == filepath.Dir(dir) {
			return filepath.Clean(path)
		}
		dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest)
	}
}
