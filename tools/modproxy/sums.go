package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	zipfile "archive/zip"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
)

// sum is what go.sum records of a module: h1 hashes of its zip and its go.mod.
type sum struct{ zip, mod string }

func sumOf(mod, archive []byte) (sum, error) {
	r, err := zipfile.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return sum{}, err
	}
	var names []string
	files := map[string]*zipfile.File{}
	for _, f := range r.File {
		names = append(names, f.Name)
		files[f.Name] = f
	}
	zipSum, err := dirhash.Hash1(names, func(name string) (io.ReadCloser, error) { return files[name].Open() })
	if err != nil {
		return sum{}, err
	}
	modSum, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(mod)), nil
	})
	return sum{zipSum, modSum}, err
}

// lines are the two lines of go.sum for a version.
func (s sum) lines(v module.Version) []string {
	return []string{
		fmt.Sprintf("%s %s %s", v.Path, v.Version, s.zip),
		fmt.Sprintf("%s %s/go.mod %s", v.Path, v.Version, s.mod),
	}
}

func (ws *workspace) sumFile(m *moduleDir) string { return filepath.Join(ws.root, m.folder, "go.sum") }

// readSums splits a module's go.sum into the lines of siblings and the others.
func (ws *workspace) readSums(m *moduleDir) (siblings, others []string, err error) {
	data, err := os.ReadFile(ws.sumFile(m))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		name, _, ok := strings.Cut(line, " ")
		switch {
		case line == "":
		case !ok || strings.Count(line, " ") != 2:
			return nil, nil, fmt.Errorf("%s/go.sum: malformed line %q", m.folder, line)
		case ws.byPath[name] != nil:
			siblings = append(siblings, line)
		default:
			others = append(others, line)
		}
	}
	return siblings, others, nil
}

// checkSums refuses sums of siblings, or, in a release, those that do not fit.
func (ws *workspace) checkSums(m *moduleDir, packed map[module.Version]sum, release bool) error {
	found, _, err := ws.readSums(m)
	if err != nil {
		return err
	}
	if len(found) > 0 && !release {
		return fmt.Errorf("%s/go.sum names a sibling (%s), whose content changes with every commit; run scripts/tidy", m.folder, found[0])
	}
	var right []string
	for v, s := range packed {
		right = append(right, s.lines(v)...)
	}
	for _, line := range found {
		if !slices.Contains(right, line) {
			return fmt.Errorf("%s/go.sum has %q, which is not the sum of what is packed", m.folder, line)
		}
	}
	return nil
}

// writeSums records in m's go.sum what it reaches among the packed siblings.
func (ws *workspace) writeSums(m *moduleDir, packed map[module.Version]sum) error {
	_, lines, err := ws.readSums(m)
	if err != nil {
		return err
	}
	for v := range ws.reached(m) {
		lines = append(lines, packed[v].lines(v)...)
	}
	return ws.saveSums(m, lines)
}

// reached are all sibling versions in m's module graph.
func (ws *workspace) reached(m *moduleDir) map[module.Version]bool {
	found := map[module.Version]bool{}
	var visit func(m *moduleDir)
	visit = func(m *moduleDir) {
		for _, r := range ws.siblings(m) {
			if !found[r.Mod] {
				found[r.Mod] = true
				visit(ws.byPath[r.Mod.Path])
			}
		}
	}
	visit(m)
	return found
}

func (ws *workspace) stripSums() error {
	for _, m := range ws.modules {
		siblings, others, err := ws.readSums(m)
		if err != nil {
			return err
		}
		if len(siblings) == 0 {
			continue
		}
		if err := ws.saveSums(m, others); err != nil {
			return err
		}
	}
	return nil
}

func (ws *workspace) saveSums(m *moduleDir, lines []string) error {
	if len(lines) == 0 {
		err := os.Remove(ws.sumFile(m))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return replaceFile(ws.sumFile(m), sortedSums(lines))
}

// sortedSums puts lines in the order in which the go command keeps them, so
// that taking the siblings out and in again leaves the others where they were.
func sortedSums(lines []string) []byte {
	byVersion := map[module.Version]string{}
	var order []module.Version
	for _, line := range lines {
		fields := strings.Fields(line)
		v := module.Version{Path: fields[0], Version: fields[1]}
		if _, twice := byVersion[v]; !twice {
			order = append(order, v)
		}
		byVersion[v] = line
	}
	module.Sort(order)
	var out bytes.Buffer
	for _, v := range order {
		out.WriteString(byVersion[v] + "\n")
	}
	return out.Bytes()
}
