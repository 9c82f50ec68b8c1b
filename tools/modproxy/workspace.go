package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// workspace is go.work and the modules that it uses, dependencies first.
type workspace struct {
	root    string
	work    *modfile.WorkFile
	modules []*moduleDir
	byPath  map[string]*moduleDir
}

// moduleDir is one module of the workspace.
type moduleDir struct {
	folder   string // relative to the root, with slashes
	path     string // module path
	mod      *modfile.File
	versions []string // named by some go.mod or by go.work, lowest first
	required []string // named by some go.mod, lowest first
}

// latest is the highest version that is named, "" for a module that nothing names.
func (m *moduleDir) latest() string {
	if len(m.versions) == 0 {
		return ""
	}
	return m.versions[len(m.versions)-1]
}

func load(root string) (*workspace, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	workPath := filepath.Join(root, "go.work")
	data, err := os.ReadFile(workPath)
	if err != nil {
		return nil, fmt.Errorf("read the workspace: %w", err)
	}
	ws := &workspace{root: root, byPath: map[string]*moduleDir{}}
	if ws.work, err = modfile.ParseWork(workPath, data, nil); err != nil {
		return nil, err
	}
	var all []*moduleDir
	for _, use := range ws.work.Use {
		m, err := ws.readModule(use.Path)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
		ws.byPath[m.path] = m
	}
	for _, m := range all {
		for _, sibling := range ws.siblings(m) {
			to := ws.byPath[sibling.Mod.Path]
			to.required = insertVersion(to.required, sibling.Mod.Version)
			to.versions = insertVersion(to.versions, sibling.Mod.Version)
		}
	}
	for _, r := range ws.work.Replace {
		if m := ws.byPath[r.Old.Path]; m != nil && r.Old.Version != "" {
			m.versions = insertVersion(m.versions, r.Old.Version)
		}
	}
	ws.modules, err = ws.sorted(all)
	return ws, err
}

func (ws *workspace) readModule(use string) (*moduleDir, error) {
	folder := path.Clean(filepath.ToSlash(use))
	if !filepath.IsLocal(folder) {
		return nil, fmt.Errorf("go.work uses %s, which is outside the workspace", use)
	}
	file := filepath.Join(ws.root, folder, "go.mod")
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read a module: %w", err)
	}
	mod, err := modfile.Parse(file, data, nil)
	if err != nil {
		return nil, err
	}
	if mod.Module == nil {
		return nil, fmt.Errorf("%s/go.mod names no module", folder)
	}
	if len(mod.Replace) > 0 {
		return nil, fmt.Errorf("%s/go.mod has a replace directive, which nobody who downloads the module would follow; require a version and let go.work replace it", folder)
	}
	return &moduleDir{folder: folder, path: mod.Module.Mod.Path, mod: mod}, nil
}

// siblings are the requirements of m that the workspace itself holds.
func (ws *workspace) siblings(m *moduleDir) []*modfile.Require {
	var found []*modfile.Require
	for _, r := range m.mod.Require {
		if ws.byPath[r.Mod.Path] != nil {
			found = append(found, r)
		}
	}
	return found
}

// sorted orders modules so that each stands behind all that it requires.
func (ws *workspace) sorted(all []*moduleDir) ([]*moduleDir, error) {
	const visiting, done = 1, 2
	state := map[*moduleDir]int{}
	var order []*moduleDir
	var visit func(m *moduleDir, trail []string) error
	visit = func(m *moduleDir, trail []string) error {
		trail = append(trail, m.folder)
		switch state[m] {
		case visiting:
			return fmt.Errorf("modules require each other in a circle: %s", strings.Join(trail, " → "))
		case done:
			return nil
		}
		state[m] = visiting
		for _, r := range ws.siblings(m) {
			if err := visit(ws.byPath[r.Mod.Path], trail); err != nil {
				return err
			}
		}
		state[m] = done
		order = append(order, m)
		return nil
	}
	for _, m := range all {
		if err := visit(m, nil); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// checkWork holds the replace lines of go.work against the go.mod files.
func (ws *workspace) checkWork() error {
	replaced := map[string]bool{}
	for _, r := range ws.work.Replace {
		m := ws.byPath[r.Old.Path]
		if m == nil {
			continue
		}
		if path.Clean(r.New.Path) != m.folder || r.New.Version != "" {
			return fmt.Errorf("go.work replaces %s by %s instead of ./%s", r.Old.Path, r.New.Path, m.folder)
		}
		replaced[r.Old.Path+"@"+r.Old.Version] = true
	}
	for _, m := range ws.modules {
		for _, v := range m.required {
			if !replaced[m.path+"@"+v] {
				return fmt.Errorf("a go.mod requires %s %s and go.work has no replace line for it; run scripts/tidy", m.path, v)
			}
		}
	}
	return nil
}

// writeWork gives go.work one replace line for each version that a go.mod
// requires, keeps the lines of modules that none requires, and drops the rest.
func (ws *workspace) writeWork() error {
	for _, r := range slices.Clone(ws.work.Replace) {
		m := ws.byPath[r.Old.Path]
		if m == nil || len(m.required) == 0 || slices.Contains(m.required, r.Old.Version) {
			continue
		}
		if err := ws.work.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return err
		}
	}
	for _, m := range ws.modules {
		for _, v := range m.required {
			if err := ws.work.AddReplace(m.path, v, "./"+m.folder, ""); err != nil {
				return err
			}
		}
	}
	ws.work.Cleanup()
	ws.work.SortBlocks()
	return replaceFile(filepath.Join(ws.root, "go.work"), modfile.Format(ws.work.Syntax))
}

func insertVersion(versions []string, v string) []string {
	i, found := slices.BinarySearchFunc(versions, v, semver.Compare)
	if found {
		return versions
	}
	return slices.Insert(versions, i, v)
}
