package hostile

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/e2e/laptop"
)

// manifest describes every entry below a folder, but for what lies below one of
// the skipped paths: kind and mode, and of what it is the size, hash or target.
func manifest(t *testing.T, root string, skip ...string) map[string]string {
	t.Helper()
	entries := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if slices.Contains(skip, name) {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		entries[name] = info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			entries[name] += fmt.Sprintf(" %d %x", len(data), sha256.Sum256(data))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			entries[name] += " " + target
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// changes lists the names of what differs, as "+new", "-gone" and "~changed".
func changes(before, after map[string]string) []string {
	var out []string
	for name, entry := range after {
		switch was, ok := before[name]; {
		case !ok:
			out = append(out, "+"+name)
		case was != entry:
			out = append(out, "~"+name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			out = append(out, "-"+name)
		}
	}
	slices.Sort(out)
	return out
}

// unexpected are the changes to the user's home that a box is not allowed: all
// but its own branch, the reflog of that, the user's view of it on the remote,
// and objects that it reaches or
// has reached.
func unexpected(l *laptop.Laptop, before, after map[string]string) []string {
	git := "src/shop/.git/"
	allowed := map[string]bool{}
	for _, ref := range []string{"refs/heads/" + l.Branch, "refs/remotes/origin/" + l.Branch} {
		for _, path := range []string{git + ref, git + "logs/" + ref} {
			for ; len(path) > len(git); path = filepath.Dir(path) {
				allowed["+"+path] = true
			}
		}
	}
	reached := map[string]bool{}
	tips := strings.Fields(l.Git("log", "--walk-reflogs", "--format=%H", l.Branch))
	for line := range strings.Lines(l.Git(append([]string{"rev-list", "--objects", "--no-object-names"}, tips...)...)) {
		reached[strings.TrimSpace(line)] = true
	}
	return slices.DeleteFunc(changes(before, after), func(change string) bool {
		object, ok := strings.CutPrefix(change, "+"+git+"objects/")
		if !ok {
			return allowed[change]
		}
		if strings.HasPrefix(object, "pack/") {
			return packOf(l, git+"objects/"+object, reached)
		}
		return len(object) == 2 || reached[strings.ReplaceAll(object, "/", "")]
	})
}

// packOf tells whether a file of the pack folder belongs to a pack that holds
// nothing but what is reached.
func packOf(l *laptop.Laptop, file string, reached map[string]bool) bool {
	index := filepath.Join(l.Home, strings.TrimSuffix(file, filepath.Ext(file))+".idx")
	for line := range strings.Lines(l.Git("verify-pack", "-v", index)) {
		if oid, _, ok := strings.Cut(line, " "); ok && len(oid) == 40 && !reached[oid] {
			return false
		}
	}
	return true
}

// named lists the names in a folder.
func named(t *testing.T, dir string) []string {
	t.Helper()
	names := maps.Keys(manifest(t, dir))
	return slices.DeleteFunc(slices.Sorted(names), func(n string) bool { return n == "." })
}

// TestTheManifestSeesEverything: the suite's promise stands on it.
func TestTheManifestSeesEverything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	must(t, os.WriteFile(file, []byte("one"), 0o600))
	must(t, os.Symlink("file", link))
	must(t, os.Mkdir(filepath.Join(dir, "state"), 0o700))
	for want, change := range map[string]func() error{
		"~file":       func() error { return os.WriteFile(file, []byte("two"), 0o600) },
		"~link":       func() error { return os.Remove(link) }, // and made anew below
		"+new":        func() error { return os.Mkdir(filepath.Join(dir, "new"), 0o700) },
		"~.":          func() error { return os.Chmod(dir, 0o711) },
		"+file.other": func() error { return os.WriteFile(file+".other", nil, 0o600) },
	} {
		before := manifest(t, dir, "state")
		must(t, change())
		if want == "~link" {
			must(t, os.Symlink("elsewhere", link))
		}
		must(t, os.WriteFile(filepath.Join(dir, "state", "x"), []byte(want), 0o600))
		if got := changes(before, manifest(t, dir, "state")); len(got) != 1 || got[0] != want {
			t.Errorf("saw %v, want %s", got, want)
		}
	}
	must(t, os.Chmod(file, 0o755))
	before := manifest(t, dir)
	must(t, os.Chmod(file, 0o700))
	must(t, os.Remove(link))
	if got := changes(before, manifest(t, dir)); len(got) != 2 || got[0] != "-link" || got[1] != "~file" {
		t.Errorf("saw %v", got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
