package importrules

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Prefix is how the path of each of our modules begins.
const Prefix = "github.com/madarco/agentbox/"

// Package is what a rule needs to know of one package.
type Package struct {
	// Path is the import path, without Prefix if the package is ours.
	Path string
	// Module is the top-level folder of our module, "" for others.
	Module   string
	Standard bool
	Main     bool
	// Files are the absolute names of the Go files, without tests.
	Files []string
	// Imports and TestImports are paths as in Path.
	Imports, TestImports []string
}

// Graph is every package of the workspace and all that it imports, by path.
type Graph map[string]*Package

// listed is what go list prints of a package.
type listed struct {
	Dir, ImportPath, Name              string
	Standard                           bool
	Module                             *struct{ Path string }
	GoFiles                            []string
	Imports, TestImports, XTestImports []string
}

// Load reads the workspace whose go.work lies in root, as it is built for
// linux/amd64.
func Load(ctx context.Context, root string) (Graph, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps",
		"-json=Dir,ImportPath,Name,Standard,Module,GoFiles,Imports,TestImports,XTestImports", "work")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=", "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the workspace's packages: %w\n%s", err, stderr.Bytes())
	}
	graph := Graph{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return graph, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode the list of packages: %w", err)
		}
		p := l.decode()
		graph[p.Path] = p
	}
}

func (l listed) decode() *Package {
	p := &Package{Path: short(l.ImportPath), Standard: l.Standard, Main: l.Name == "main"}
	if l.Module != nil && strings.HasPrefix(l.Module.Path, Prefix) {
		p.Module = strings.TrimPrefix(l.Module.Path, Prefix)
	}
	for _, f := range l.GoFiles {
		p.Files = append(p.Files, filepath.Join(l.Dir, f))
	}
	p.Imports = shortAll(l.Imports)
	p.TestImports = shortAll(append(l.TestImports, l.XTestImports...))
	return p
}

func shortAll(paths []string) []string {
	var all []string
	for _, p := range paths {
		all = append(all, short(p))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func short(path string) string { return strings.TrimPrefix(path, Prefix) }

// ours lists our packages in order.
func (g Graph) ours() []*Package {
	var found []*Package
	for _, p := range g {
		if p.Module != "" {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *Package) int { return strings.Compare(a.Path, b.Path) })
	return found
}

// module is the module of ours that holds path, "" for others.
func (g Graph) module(path string) string {
	if p := g[path]; p != nil {
		return p.Module
	}
	return ""
}

// standard tells whether path is of the standard library; go list leaves the
// dependencies of tests out, but only a host's name has a dot in front.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// links is all that a program or package is made of, itself included, with the
// package that brings each one in.
func (g Graph) links(from string) map[string]string {
	via := map[string]string{from: ""}
	queue := []string{from}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		if g[path] == nil {
			continue
		}
		for _, next := range g[path].Imports {
			if _, seen := via[next]; !seen {
				via[next] = path
				queue = append(queue, next)
			}
		}
	}
	return via
}

// trail is how from comes to link path.
func trail(via map[string]string, path string) string {
	var steps []string
	for p := path; p != ""; p = via[p] {
		steps = append(steps, p)
	}
	slices.Reverse(steps)
	return strings.Join(steps, " → ")
}
