package state

import (
	"fmt"
	"os"
	"path/filepath"
)

// maxDepth bounds the walk towards the root of the file system.
const maxDepth = 64

// ProjectRoot is the project that a folder belongs to, as a real path: the
// nearest folder at or above it that holds agentbox.yaml, else the nearest
// that holds .git, so that every folder of a repository means the same boxes,
// else the folder itself. Nothing that it finds is opened.
func ProjectRoot(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the project: %w", err)
	}
	start, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", fmt.Errorf("find the project: %w", err)
	}
	for _, mark := range []string{"agentbox.yaml", ".git"} {
		if root, ok := nearest(start, mark); ok {
			return root, nil
		}
	}
	return start, nil
}

func nearest(dir, mark string) (string, bool) {
	for range maxDepth {
		if _, err := os.Lstat(filepath.Join(dir, mark)); err == nil {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	return "", false
}
