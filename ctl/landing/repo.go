// Package landing hands the box's commits to the host as they are made: it
// watches each repository's refs and pushes a moved branch of the box to the
// relay's landing ref.
//
// Invariants:
//   - Only the branches that the host named are handed in, by object id.
//   - One push at a time per repository; the next carries the newest tips.
//   - A tip counts as landed only when the relay said so. What it refused is not
//     sent again by itself; what failed on the way is.
//   - What is seen here is a hint: the host decides what becomes of a tip.
//   - What a hand-in says of the past, in old values and by what its pack leaves
//     out, only saves bytes: the host goes by its own refs.
//   - A hand-in costs the box one process, which writes the pack.
package landing

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/atomicfile"
	"github.com/madarco/agentbox/core/setup"
)

// Repo is one repository to watch.
type Repo struct {
	Key  string       `json:"key"`
	Path core.BoxPath `json:"path"`
	// Endpoint is the relay's address of the repository.
	Endpoint string `json:"endpoint"`
	// Base is the commit that the box started from.
	Base core.ObjectID `json:"base,omitempty"`
	// Branches are the box's own branch and the one that the host put it on.
	Branches []core.BranchName `json:"branches"`
}

// FromSetup takes from the host's description what landing needs.
func FromSetup(r setup.Repo) Repo {
	repo := Repo{Key: r.Key, Path: r.BoxPath, Endpoint: r.Endpoint, Base: r.BaseOID}
	for _, b := range []core.BranchName{r.Branch, r.Sanctioned} {
		if b != "" && (len(repo.Branches) == 0 || repo.Branches[0] != b) {
			repo.Branches = append(repo.Branches, b)
		}
	}
	return repo
}

func listPath(stateDir string) string { return filepath.Join(stateDir, "repos.json") }

// WriteList keeps the repositories of the box in its state folder, from where
// every start of the daemon takes them.
func WriteList(stateDir string, repos []Repo) error {
	body, err := json.MarshalIndent(repos, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the list of repositories: %w", err)
	}
	return atomicfile.Write(listPath(stateDir), append(body, '\n'), 0o644)
}

// ReadList reads what WriteList wrote; no file is an empty list.
func ReadList(stateDir string) ([]Repo, error) {
	body, err := os.ReadFile(listPath(stateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of repositories: %w", err)
	}
	var repos []Repo
	if err := json.Unmarshal(body, &repos); err != nil {
		return nil, fmt.Errorf("decode %s: %w; create the box anew if it stays so", listPath(stateDir), err)
	}
	return repos, nil
}

// Only is the repository at a path, with one branch of it, which need not be
// among those that land by themselves.
func Only(repos []Repo, at core.BoxPath, branch string) ([]Repo, error) {
	name, err := core.ParseBranchName(branch)
	if err != nil {
		return nil, err
	}
	for _, r := range repos {
		if r.Path == at {
			r.Branches = []core.BranchName{name}
			return []Repo{r}, nil
		}
	}
	return nil, fmt.Errorf("no repository is at %s", at)
}
