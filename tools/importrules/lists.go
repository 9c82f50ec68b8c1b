package importrules

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Lists renders the checked-in lists by file name.
func Lists(g Graph, uses []Use) map[string]string {
	lists := map[string]string{"programs.txt": programList(g, uses)}
	for module := range siblings {
		if text := libraryList(g, module); text != "" {
			lists["modules/"+module+".txt"] = text
		}
	}
	for _, p := range g.ours() {
		if p.Main && !slices.Contains(unbound, p.Module) {
			lists["binaries/"+path.Base(p.Path)+".txt"] = binaryList(g, p)
		}
	}
	return lists
}

// libraryList names each package of others that a module imports, with the
// packages that import it, and apart from them what only tests import.
func libraryList(g Graph, module string) string {
	code, tests := map[string][]string{}, map[string][]string{}
	for _, p := range g.ours() {
		if p.Module != module {
			continue
		}
		collect(g, code, p, p.Imports)
		collect(g, tests, p, p.TestImports)
	}
	for library := range code {
		delete(tests, library)
	}
	text := lines(code)
	if len(tests) > 0 {
		text += "\n# in tests\n" + lines(tests)
	}
	return text
}

func collect(g Graph, users map[string][]string, p *Package, imports []string) {
	for _, path := range imports {
		if !standard(path) && g.module(path) == "" {
			users[path] = append(users[path], p.Path)
		}
	}
}

// binaryList names all packages of a program but the standard library's, and
// marks those that import os/exec or unsafe.
func binaryList(g Graph, main *Package) string {
	marks := map[string][]string{}
	for path := range g.links(main.Path) {
		p := g[path]
		if p == nil || p.Standard {
			continue
		}
		marks[path] = nil
		for _, mark := range []string{"os/exec", "unsafe"} {
			if slices.Contains(p.Imports, mark) {
				marks[path] = append(marks[path], mark)
			}
		}
	}
	return lines(marks)
}

// programList names the packages of the product that start programs, and how.
func programList(g Graph, uses []Use) string {
	calls := map[string][]string{}
	for _, p := range g.ours() {
		if !slices.Contains(unbound, p.Module) && slices.Contains(p.Imports, "os/exec") {
			calls[p.Path] = nil
		}
	}
	for _, u := range uses {
		if !slices.Contains(unbound, g.module(u.Package)) && !slices.Contains(calls[u.Package], u.Call) {
			calls[u.Package] = append(calls[u.Package], u.Call)
		}
	}
	return lines(calls)
}

func lines(entries map[string][]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		details := slices.Clone(entries[name])
		slices.Sort(details)
		fmt.Fprintln(&out, strings.Join(append([]string{name}, details...), " "))
	}
	return out.String()
}
