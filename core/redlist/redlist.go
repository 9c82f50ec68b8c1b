// Package redlist names the paths and kinds of files that can make something run
// on the user's machine later, at the next checkout, install, commit or look into
// the folder, without the user having started it: one table, and how a path is
// held against it.
//
// What runs only because somebody starts it (sources, tests, Makefiles,
// Dockerfiles) is not on it: a list that names every change is read by nobody.
//
// Invariants:
//   - The package is pure: it touches no file system and reads no file's content.
//   - A path matches in every spelling that Linux, macOS or Windows takes for the
//     listed name: case, normal form, invisible characters, trailing dots and
//     spaces, backslashes, streams.
//   - A class that is hit is always told of, however many paths hit another one.
package redlist

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/madarco/agentbox/core"
)

// Large is the size in bytes from which a file is on the list. Few files that a
// person reads are as large, and history never gets rid of it.
const Large = 5 << 20

// Change is one path that commits write or remove, and what it is afterwards.
type Change struct {
	// Path is relative to the root of the repository, as the tree spells it.
	Path string
	// Link tells that it is a symbolic link, Submodule a commit of another
	// repository, Executable that it can be run and could not before, and Large
	// that it has at least that many bytes.
	Link, Submodule, Executable, Large bool
}

// Classes are the classes of the list that the change hits, in the table's order.
// A removal hits too where the path is listed: what a file forbids is allowed
// without it.
func (c Change) Classes() []Class {
	hit := Match(c.Path)
	for _, kind := range [...]struct {
		is    bool
		class Class
	}{{c.Submodule, Submodule}, {c.Link, Link}, {c.Executable, Executable}, {c.Large, LargeFile}} {
		if kind.is && !slices.Contains(hit, kind.class) {
			hit = append(hit, kind.class)
		}
	}
	slices.SortFunc(hit, byOrder)
	return hit
}

// Match are the classes of the list that name the path, in the table's order.
func Match(name string) []Class {
	var hit []Class
	add := func(class Class) {
		if !slices.Contains(hit, class) {
			hit = append(hit, class)
		}
	}
	names, t := components(name), index()
	for i, last := range names {
		for _, p := range t.exact[last] {
			if (p.folder || i == len(names)-1) && ends(names[:i], p.above) {
				add(p.class)
			}
		}
	}
	for _, g := range t.globs {
		if g.matches(names[len(names)-1]) {
			add(g.class)
		}
	}
	slices.SortFunc(hit, byOrder)
	return hit
}

func ends(names, with []string) bool {
	return len(names) >= len(with) && slices.Equal(names[len(names)-len(with):], with)
}

// pattern is a name of the table, taken apart.
type pattern struct {
	class  Class
	above  []string // names of the folders that it lies in
	name   string
	folder bool // all that lies below matches too
}

// glob is a name of files with a star in it, taken apart there.
type glob struct {
	class         Class
	before, after string
}

func (g glob) matches(name string) bool {
	return len(name) >= len(g.before)+len(g.after) && strings.HasPrefix(name, g.before) && strings.HasSuffix(name, g.after)
}

type patterns struct {
	exact map[string][]pattern // by name
	globs []glob
}

// index takes the table apart when it is first asked: programs in a box link it
// and never do.
var index = sync.OnceValue(func() patterns {
	t := patterns{exact: map[string][]pattern{}}
	for _, row := range table {
		for _, name := range row.names {
			parts := strings.Split(strings.TrimSuffix(name, "/"), "/")
			p := pattern{row.class, parts[:len(parts)-1], parts[len(parts)-1], strings.HasSuffix(name, "/")}
			if before, after, ok := strings.Cut(name, "*"); ok {
				t.globs = append(t.globs, glob{row.class, before, after})
			} else {
				t.exact[p.name] = append(t.exact[p.name], p)
			}
		}
	}
	return t
})

// Components are the names of which a path is made, folded as Match does it: for
// other tables of ASCII names.
func Components(name string) []string { return components(name) }

// components are the names of which a path is made, as the least discerning file
// system sees them. There is at least one.
func components(name string) []string {
	names := strings.Split(fold(strings.ReplaceAll(name, `\`, "/")), "/")
	for i := range names {
		file, _, _ := strings.Cut(names[i], ":") // NTFS: what follows names a stream of it
		names[i] = strings.TrimRight(file, ". ")
	}
	return names
}

// asASCII are the characters that full case folding and NFC turn into ASCII
// (Unicode's CaseFolding.txt, C and F, and U+212A's canonical mapping). The names
// of the table are ASCII, so that no other character matters.
var asASCII = sync.OnceValue(func() *strings.Replacer {
	return strings.NewReplacer("\u017f", "s", "\u212a", "k", "\u00df", "ss", "\u1e9e", "ss", "\ufb00", "ff", "\ufb01", "fi",
		"\ufb02", "fl", "\ufb03", "ffi", "\ufb04", "ffl", "\ufb05", "st", "\ufb06", "st")
})

func fold(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
		s = asASCII().Replace(strings.Map(func(r rune) rune {
			if unicode.Is(unicode.Cf, r) {
				return -1 // HFS+ ignores these
			}
			return r
		}, s))
	}
	return strings.ToLower(s)
}

// Group is what changes hit of one class.
type Group struct {
	Class Class `json:"class"`
	// What says in words of ours what the paths are; it completes "changes …".
	What string `json:"what"`
	// Count is how many paths hit.
	Count int `json:"count"`
	// Paths are the first of them by name, at most MaxPaths, each cut to
	// MaxPathBytes.
	Paths []core.Untrusted `json:"paths"`
}

// Bounds of what a Group keeps.
const (
	MaxPaths     = 5
	MaxPathBytes = 400
)

// List gathers the hits of changes in bounded memory. The zero value is empty.
type List struct{ groups map[Class]*Group }

// Add takes in a change. Each path may be added once.
func (l *List) Add(c Change) {
	for _, class := range c.Classes() {
		g := l.groups[class]
		if g == nil {
			if l.groups == nil {
				l.groups = map[Class]*Group{}
			}
			g = &Group{Class: class, What: class.What()}
			l.groups[class] = g
		}
		g.Count++
		g.keep(core.Untrusted(c.Path[:min(len(c.Path), MaxPathBytes)]))
	}
}

func (g *Group) keep(name core.Untrusted) {
	at, found := slices.BinarySearch(g.Paths, name)
	if found || at == MaxPaths {
		return
	}
	g.Paths = slices.Insert(g.Paths, at, name)
	g.Paths = g.Paths[:min(len(g.Paths), MaxPaths)]
}

// Groups are the hits, one group for each class that is hit, in the table's order.
func (l *List) Groups() []Group {
	var out []Group
	for _, g := range l.groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int { return byOrder(a.Class, b.Class) })
	return out
}

// Merge unites what two looks at the same commits have found. A path may be in
// both, so the count of a class is the larger one.
func Merge(a, b []Group) []Group {
	if len(a) == 0 {
		return b
	}
	out := slices.Clone(a)
	for _, g := range b {
		at := slices.IndexFunc(out, func(o Group) bool { return o.Class == g.Class })
		if at < 0 {
			out = append(out, g)
			continue
		}
		both := out[at]
		both.Paths = slices.Clone(both.Paths)
		for _, name := range g.Paths {
			both.keep(name)
		}
		both.Count = max(both.Count, g.Count, len(both.Paths))
		out[at] = both
	}
	slices.SortFunc(out, func(a, b Group) int { return byOrder(a.Class, b.Class) })
	return out
}
