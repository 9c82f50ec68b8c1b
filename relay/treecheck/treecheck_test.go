package treecheck_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay/treecheck"
)

const (
	file = "100644"
	link = "120000"
	gone = "000000"
)

// entry is one changed or present path; content is what its blob holds.
type entry struct{ mode, path, content string }

func oid(n int) core.ObjectID { return core.ObjectID(fmt.Sprintf("%040x", n+1)) }

func raw(entries []entry) string {
	var b strings.Builder
	for i, e := range entries {
		status := "A"
		if e.mode == gone {
			status = "D"
		}
		fmt.Fprintf(&b, ":%s %s %s %s %s\x00%s\x00", gone, e.mode, core.ZeroID(40), oid(i), status, e.path)
	}
	return b.String()
}

func tree(entries []entry) string {
	var b strings.Builder
	for i, e := range entries {
		fmt.Fprintf(&b, "%s blob %s\t%s\x00", e.mode, oid(i), e.path)
	}
	return b.String()
}

func check(t testing.TB, changes, present []entry) []policy.Finding {
	t.Helper()
	c := treecheck.New(treecheck.Defaults)
	if err := c.Changes(strings.NewReader(raw(changes))); err != nil {
		t.Fatal(err)
	}
	for _, want := range c.Wants() {
		for i, e := range changes {
			if oid(i) == want {
				c.Content(want, []byte(e.content))
			}
		}
	}
	if c.NeedsTree() {
		if err := c.Tree(strings.NewReader(tree(append(present, changes...)))); err != nil {
			t.Fatal(err)
		}
	}
	return c.Findings()
}

const (
	folder    = "a folder that git takes for a repository"
	collision = "names that differ only in case or form, one of them a link"
	leadsOut  = "a link into .git or out of the tree"
	controls  = "control characters in .gitmodules"
	foreign   = "a name that Windows or macOS reads differently"
)

func TestFindings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes, present []entry
		want             []policy.Finding
	}{
		"plain files":           {changes: []entry{{file, "src/main.go", ""}, {file, "HEAD.md", ""}, {file, "refs.go", ""}, {file, "über/ß.txt", ""}}},
		"bare repository":       {changes: []entry{{file, "x/HEAD", ""}, {file, "x/objects/a", ""}, {file, "x/refs/b", ""}}, want: hits(folder, "x")},
		"in any case":           {changes: []entry{{file, "x/hEaD", ""}, {file, "x/CommonDir", ""}}, want: hits(folder, "x")},
		"at the root":           {changes: []entry{{file, "HEAD", ""}, {file, "objects/pack/p", ""}}, want: hits(folder, ".")},
		"completed":             {changes: []entry{{file, "x/refs/b", ""}}, present: []entry{{file, "x/HEAD", ""}}, want: hits(folder, "x")},
		"only refs":             {changes: []entry{{file, "x/refs/b", ""}, {file, "x/objects/c", ""}}},
		"HEAD alone":            {changes: []entry{{file, "x/HEAD", ""}}, present: []entry{{file, "y/refs/a", ""}}},
		"the user's own":        {changes: []entry{{file, "y/z", ""}}, present: []entry{{file, "x/HEAD", ""}, {file, "x/refs/a", ""}}},
		"link onto folder":      {changes: []entry{{link, "Lib", "src"}}, present: []entry{{file, "lib/a.c", ""}}, want: hits(collision, "lib/a.c")},
		"file under link":       {changes: []entry{{file, "LIB/x", ""}}, present: []entry{{link, "lib", "src"}}, want: hits(collision, "LIB/x")},
		"link in another form":  {changes: []entry{{link, "\u00e9", "a"}, {file, "e\u0301/x", ""}}, want: append(hits(foreign, "e\u0301/x"), hits(collision, "e\u0301/x")...)},
		"two files by case":     {changes: []entry{{file, "A", ""}, {file, "a", ""}}},
		"link inside":           {changes: []entry{{link, "a/b/l", "../../c/./d"}, {link, "l", "x/y"}}},
		"absolute link":         {changes: []entry{{link, "l", "/etc/passwd"}}, want: hits(leadsOut, "l")},
		"link up":               {changes: []entry{{link, "a/l", "../../x"}}, want: hits(leadsOut, "a/l")},
		"link up behind a name": {changes: []entry{{link, "a/b/l", "d/../x"}}, want: hits(leadsOut, "a/b/l")},
		"link into .git":        {changes: []entry{{link, "a/l", "../.GIT/hooks"}}, want: hits(leadsOut, "a/l")},
		"link into .g\u200cit":  {changes: []entry{{link, "l", ".g\u200cit/config"}}, want: hits(leadsOut, "l")},
		"link into git~1":       {changes: []entry{{link, "l", "git~1/config"}}, want: hits(leadsOut, "l")},
		"windows link":          {changes: []entry{{link, "l", `..\x`}}, want: hits(leadsOut, "l")},
		"drive link":            {changes: []entry{{link, "l", `C:\x`}}, want: hits(leadsOut, "l")},
		"empty link":            {changes: []entry{{link, "l", ""}}, want: hits(leadsOut, "l")},
		"modules":               {changes: []entry{{file, ".gitmodules", "[submodule \"a\"]\n\tpath = a\n"}}},
		"modules with CR":       {changes: []entry{{file, ".gitmodules", "[submodule \"a\"]\n\tpath = a\r\n"}}, want: hits(controls, ".gitmodules")},
		"modules in caps":       {changes: []entry{{file, ".GitModules", "\x1b"}}, want: hits(controls, ".GitModules")},
		"backslash":             {changes: []entry{{file, `..\..\x`, ""}}, want: hits(foreign, `..\..\x`)},
		"stream":                {changes: []entry{{file, "a:b", ""}}, want: hits(foreign, "a:b")},
		"trailing dot":          {changes: []entry{{file, "a./b", ""}}, want: hits(foreign, "a./b")},
		"trailing space":        {changes: []entry{{file, "a ", ""}}, want: hits(foreign, "a ")},
		"device":                {changes: []entry{{file, "src/Aux.c", ""}, {file, "auxiliary.c", ""}}, want: hits(foreign, "src/Aux.c")},
		"short name":            {changes: []entry{{file, "GITMOD~1", ""}, {file, "notes.txt~", ""}}, want: hits(foreign, "GITMOD~1")},
		"invisible":             {changes: []entry{{file, ".g\u200dit", ""}}, want: hits(foreign, ".g\u200dit")},
		"not UTF-8":             {changes: []entry{{file, "a\xff", ""}}, want: hits(foreign, "a\xff")},
		"line feed":             {changes: []entry{{file, "a\nb", ""}}, want: hits(foreign, "a\nb")},
		"removal of anything":   {changes: []entry{{gone, "a:b", ""}, {gone, "x/HEAD", ""}}, present: []entry{{file, "x/refs/a", ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, check(t, c.changes, c.present)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func hits(rule string, paths ...string) []policy.Finding {
	var out []policy.Finding
	for _, p := range paths {
		out = append(out, policy.Finding{Rule: rule, Path: core.Untrusted(p)})
	}
	return out
}

func TestUnseenContentIsAHit(t *testing.T) {
	t.Parallel()
	c := treecheck.New(treecheck.Defaults)
	if err := c.Changes(strings.NewReader(raw([]entry{{link, "l", "harmless"}}))); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hits(leadsOut, "l"), c.Findings()); diff != "" {
		t.Error(diff)
	}
}

func TestMergesAreRead(t *testing.T) {
	t.Parallel()
	c := treecheck.New(treecheck.Defaults)
	zero, id := core.ZeroID(64), strings.Repeat("a", 64)
	line := fmt.Sprintf("::100644 100644 120000 %s %s %s MT\x00merged\x00", zero, zero, id)
	if err := c.Changes(strings.NewReader(line)); err != nil {
		t.Fatal(err)
	}
	if got := c.Wants(); len(got) != 1 || string(got[0]) != id || c.Paths() != 1 || !c.NeedsTree() {
		t.Errorf("wants %v, %d paths", got, c.Paths())
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	small := treecheck.Limits{Paths: 2, PathBytes: 20, Depth: 3, TreePaths: 2, Findings: 1}
	for name, entries := range map[string][]entry{
		"paths":  {{file, "a", ""}, {file, "b", ""}, {file, "c", ""}},
		"length": {{file, strings.Repeat("a", 21), ""}},
		"depth":  {{file, "a/b/c/d/e", ""}},
	} {
		var bound *treecheck.BoundError
		if err := treecheck.New(small).Changes(strings.NewReader(raw(entries))); !errors.As(err, &bound) {
			t.Errorf("%s of a change: got %v", name, err)
		}
		if err := treecheck.New(small).Tree(strings.NewReader(tree(entries))); !errors.As(err, &bound) {
			t.Errorf("%s of a tree: got %v", name, err)
		}
	}
	c := treecheck.New(small)
	if err := c.Changes(strings.NewReader(raw([]entry{{file, "a:", ""}, {file, "b:", ""}}))); err != nil {
		t.Fatal(err)
	}
	if n := len(c.Findings()); n != 1 {
		t.Errorf("%d findings kept, want 1", n)
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	good := raw([]entry{{file, "a", ""}})
	for _, text := range []string{good[:10], good[:len(good)-1], good[1:], strings.Replace(good, "100644", "10x644", 1), strings.Replace(good, " A\x00", "\x00", 1), "\x00\x00", strings.Replace(good, "a\x00", "\x00", 1)} {
		if err := treecheck.New(treecheck.Defaults).Changes(strings.NewReader(text)); !errors.Is(err, treecheck.ErrMalformed) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func FuzzChanges(f *testing.F) {
	f.Add(raw([]entry{{file, "x/HEAD", ""}, {link, "x/refs/l", "../../.git"}}), "..", tree([]entry{{link, "X", ""}}))
	f.Add(raw([]entry{{gone, "a", ""}, {file, "ſ/K\u212a", ""}}), "\x00", "")
	f.Fuzz(func(t *testing.T, changes, content, present string) {
		c := treecheck.New(treecheck.Defaults)
		if err := c.Changes(strings.NewReader(changes)); err != nil {
			return
		}
		_, _ = c.Side(strings.NewReader(changes)), c.Side(strings.NewReader(changes))
		for _, id := range c.Wants() {
			c.Content(id, []byte(content))
		}
		_ = c.Tree(strings.NewReader(present))
		first := c.Findings()
		if diff := cmp.Diff(first, c.Findings()); diff != "" {
			t.Fatalf("asking twice gives two answers:\n%s", diff)
		}
	})
}

// BenchmarkTree is what a landing with a new file in a wide repository costs.
func BenchmarkTree(b *testing.B) {
	var present []entry
	for i := range 57_000 {
		present = append(present, entry{file, fmt.Sprintf("dir%d/sub%d/file%d.js", i%40, i%700, i), ""})
	}
	text := tree(present)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		c := treecheck.New(treecheck.Defaults)
		if err := c.Changes(strings.NewReader(raw([]entry{{file, "new", ""}}))); err != nil {
			b.Fatal(err)
		}
		if err := c.Tree(strings.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}

func TestWhatMergesBringTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sides [][]entry
		tree  []entry
		want  []policy.Finding
	}{
		"a repository from two sides": {
			[][]entry{{{file, "x/refs/a", ""}}, {{file, "x/HEAD", ""}}}, []entry{{file, "x/HEAD", ""}, {file, "x/refs/a", ""}}, hits(folder, "x"),
		},
		"one that a side has whole": {
			[][]entry{{{file, "x/HEAD", ""}, {file, "x/refs/a", ""}}, {{file, "y", ""}}}, []entry{{file, "x/HEAD", ""}, {file, "x/refs/a", ""}}, nil,
		},
		"a link of one side over a folder of the other": {
			[][]entry{{{file, "lib/a", ""}}, {{link, "Lib", "src"}}}, []entry{{link, "Lib", "src"}, {file, "lib/a", ""}}, hits(collision, "lib/a"),
		},
		"the same from three sides": {
			[][]entry{{{file, "lib/a", ""}}, {{file, "lib/a", ""}}, {{link, "Lib", "src"}}}, []entry{{link, "Lib", "src"}, {file, "lib/a", ""}}, hits(collision, "lib/a"),
		},
		"nothing of the kind": {[][]entry{{{file, "a", ""}}, {{file, "b", ""}}}, []entry{{file, "a", ""}, {file, "b", ""}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			merged := treecheck.New(treecheck.Defaults)
			for _, side := range c.sides {
				if err := merged.Side(strings.NewReader(raw(side))); err != nil {
					t.Fatal(err)
				}
			}
			if merged.NeedsTree() {
				if err := merged.Tree(strings.NewReader(tree(c.tree))); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(c.want, merged.Findings(), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestWhatWasThereBetween: a commit in the middle is a trap too, though what
// made it one was there before and is gone at the tip.
func TestWhatWasThereBetween(t *testing.T) {
	t.Parallel()
	c := treecheck.New(treecheck.Defaults)
	if err := c.Changes(strings.NewReader(raw([]entry{{file, "x/refs/a", ""}, {gone, "x/HEAD", ""}, {gone, "x/refs/a", ""}}))); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hits(folder, "x"), c.Findings()); diff != "" {
		t.Error(diff)
	}
	c = treecheck.New(treecheck.Defaults)
	zero := core.ZeroID(40)
	line := fmt.Sprintf(":120000 000000 %s %s D\x00lib\x00:000000 100644 %s %s A\x00LIB/x\x00", zero, zero, zero, strings.Repeat("a", 40))
	if err := c.Changes(strings.NewReader(line)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hits(collision, "LIB/x"), c.Findings()); diff != "" {
		t.Error(diff)
	}
}
