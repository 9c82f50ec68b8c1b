package gitcmd

import (
	"errors"
	"os"
	"os/exec"
)

// systemGit is where the box image has git.
const systemGit = "/usr/bin/git"

// ErrNoGit: the box has no git program.
var ErrNoGit = errors.New("git is not installed in the box")

// Path is the real git: AGENTBOX_REAL_GIT_PATH, else the image's, else the
// first on PATH. An absolute path keeps a wrapper that the agent put in front
// of git out of our own calls.
func Path() (string, error) {
	for _, path := range []string{os.Getenv("AGENTBOX_REAL_GIT_PATH"), systemGit} {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, nil
		}
	}
	path, err := exec.LookPath("git")
	if err != nil {
		return "", ErrNoGit
	}
	return path, nil
}
