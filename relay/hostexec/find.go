package hostexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/madarco/agentbox/core"
)

// ErrNotFound: no folder of PATH that may be used holds the program.
var ErrNotFound = errors.New("the program is not installed")

// Host finds and runs the programs of this host. It is safe for concurrent use.
type Host struct {
	dir   string
	path  []string
	boxes func(context.Context) ([]core.Box, error)
	grace time.Duration

	mu    sync.Mutex
	found map[string]string // by name: the absolute path
}

// New makes a Host that runs programs in folders below dir, which is the
// Host's alone: what an earlier one left there is removed. boxes lists all
// boxes, for the folders that no program is taken from.
func New(dir string, boxes func(context.Context) ([]core.Box, error)) (*Host, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("remove the folders of earlier calls: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for calls: %w", err)
	}
	h := &Host{dir: dir, boxes: boxes, grace: killAfter, found: map[string]string{}}
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(folder) {
			h.path = append(h.path, folder)
		}
	}
	return h, nil
}

// Program is a program of the host that was found.
type Program struct{ path string }

// Path is absolute.
func (p Program) Path() string { return p.path }

// Find looks a program up by its name. What was found once is kept as long as it
// is there. The error wraps ErrNotFound when there is none.
func (h *Host) Find(ctx context.Context, name string) (Program, error) {
	if name == "" || name != filepath.Base(name) {
		return Program{}, fmt.Errorf("program %q: %w", name, core.ErrInvalid)
	}
	closed, err := h.projects(ctx)
	if err != nil {
		return Program{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	candidates := []string{h.found[name]}
	for _, folder := range h.path {
		candidates = append(candidates, filepath.Join(folder, name))
	}
	for _, path := range candidates {
		if isProgram(path) && outside(closed, path) && outside(closed, filepath.Dir(path)) {
			h.found[name] = path
			return Program{path}, nil
		}
	}
	return Program{}, fmt.Errorf("find %s: %w", name, ErrNotFound)
}

func isProgram(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}

// outside tells whether what path resolves to lies in none of the folders,
// which are real paths.
func outside(folders []string, path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(folders, func(dir string) bool {
		rel, err := filepath.Rel(dir, real)
		return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
	})
}

// projects are the real paths of all folders that boxes work on.
func (h *Host) projects(ctx context.Context) ([]string, error) {
	boxes, err := h.boxes(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the boxes: %w", err)
	}
	var dirs []string
	for _, box := range boxes {
		dirs = append(dirs, box.ProjectRoot)
		for _, repo := range box.Repos {
			dirs = append(dirs, repo.WorkTree, repo.CommonDir)
		}
	}
	var real []string
	for _, dir := range dirs {
		if path, err := filepath.EvalSymlinks(dir); err == nil && filepath.IsAbs(path) {
			real = append(real, path)
		}
	}
	return real, nil
}
