package treecheck_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/redlist"
	"github.com/madarco/agentbox/relay/treecheck"
)

// line is a raw diff line of one path: the modes of the parents, then its own.
func line(path string, oid core.ObjectID, modes ...string) string {
	parents := len(modes) - 1
	return fmt.Sprintf("%s%s %s%s M\x00%s\x00", strings.Repeat(":", parents), strings.Join(modes, " "),
		strings.Repeat(string(core.ZeroID(40))+" ", parents), oid, path)
}

func TestTheRedListOfChanges(t *testing.T) {
	t.Parallel()
	const executable, submodule = "100755", "160000"
	large := map[core.ObjectID]bool{oid(9): true}
	for name, c := range map[string]struct {
		text string
		want []redlist.Class
	}{
		"a plain file":                       {line("a", oid(1), gone, file), nil},
		"a listed name":                      {line(".envrc", oid(1), file, file), []redlist.Class{redlist.ShellConfig}},
		"its removal":                        {line(".envrc", core.ZeroID(40), file, gone), []redlist.Class{redlist.ShellConfig}},
		"a link":                             {line("a", oid(1), gone, link), []redlist.Class{redlist.Link}},
		"a link that leads elsewhere now":    {line("a", oid(1), link, link), []redlist.Class{redlist.Link}},
		"a link that is gone":                {line("a", core.ZeroID(40), link, gone), nil},
		"a submodule":                        {line("a", oid(1), gone, submodule), []redlist.Class{redlist.Submodule}},
		"a new executable":                   {line("a", oid(1), gone, executable), []redlist.Class{redlist.Executable}},
		"a file that becomes one":            {line("a", oid(1), file, executable), []redlist.Class{redlist.Executable}},
		"one that was one":                   {line("a", oid(1), executable, executable), nil},
		"one that is none any more":          {line("a", oid(1), executable, file), nil},
		"a merge where one side had it":      {line("a", oid(1), file, executable, executable), nil},
		"a merge where none had it":          {line("a", oid(1), file, file, executable), []redlist.Class{redlist.Executable}},
		"a large file":                       {line("a", oid(9), gone, file), []redlist.Class{redlist.LargeFile}},
		"a large file that was small before": {line("a", oid(9), file, file), []redlist.Class{redlist.LargeFile}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := treecheck.New(treecheck.Defaults)
			check.Large(large)
			if err := check.Changes(strings.NewReader(c.text)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, classes(check.RedList())); diff != "" {
				t.Errorf("of commits (-want +got):\n%s", diff)
			}
			files, red, err := treecheck.Difference(strings.NewReader(c.text), large)
			if diff := cmp.Diff(c.want, classes(red)); diff != "" || err != nil || files != 1 {
				t.Errorf("of two trees: %d files, %v (-want +got):\n%s", files, err, diff)
			}
		})
	}
}

func classes(groups []redlist.Group) (out []redlist.Class) {
	for _, g := range groups {
		out = append(out, g.Class)
	}
	return out
}

// TestEachPathCountsOnce, with all that commits made of it.
func TestEachPathCountsOnce(t *testing.T) {
	t.Parallel()
	check := treecheck.New(treecheck.Defaults)
	text := line("run", oid(1), gone, link) + line("run", oid(2), link, "100755") + line("run", oid(3), "100755", file)
	if err := check.Changes(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	want := []redlist.Group{
		{Class: redlist.Link, What: "links", Count: 1, Paths: []core.Untrusted{"run"}},
		{Class: redlist.Executable, What: "newly executable files", Count: 1, Paths: []core.Untrusted{"run"}},
	}
	if diff := cmp.Diff(want, check.RedList()); diff != "" {
		t.Error(diff)
	}
}

// TestTheRedListFoldsAsTheTreeCheckDoes: each character that is ASCII for a file
// system that folds case and form is so for the red list.
func TestTheRedListFoldsAsTheTreeCheckDoes(t *testing.T) {
	t.Parallel()
	names := []string{".husky/pre-commit", ".vscode/tasks.json", ".pre-commit-config.yaml", "flake.nix", ".lintstagedrc", ".github/workflows/a"}
	tried := 0
	for r := rune(0x80); r < 0x20000; r++ {
		folded := norm.NFC.String(cases.Fold().String(norm.NFC.String(string(r))))
		if strings.IndexFunc(folded, func(r rune) bool { return r >= 0x80 }) >= 0 {
			continue
		}
		for _, name := range names {
			if !strings.Contains(name, folded) {
				continue
			}
			tried++
			other := strings.Replace(name, folded, string(r), 1)
			if !slices.Equal(redlist.Match(name), redlist.Match(other)) {
				t.Errorf("%q (%U) is not taken for %q", other, r, name)
			}
		}
	}
	if tried < 10 {
		t.Errorf("%d names tried: no character folds to ASCII", tried)
	}
}

func FuzzDifference(f *testing.F) {
	f.Add(line(".envrc", oid(1), file, file) + line("a", oid(9), link, "160000"))
	f.Add(":")
	f.Fuzz(func(t *testing.T, text string) {
		files, red, err := treecheck.Difference(strings.NewReader(text), map[core.ObjectID]bool{oid(9): true})
		for _, g := range red {
			if g.Count > files || len(g.Paths) > redlist.MaxPaths || g.Count < len(g.Paths) {
				t.Fatalf("%d files, %+v, %v", files, g, err)
			}
		}
	})
}
