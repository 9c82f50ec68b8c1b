package images

import (
	"encoding/json"
	"io/fs"
	"path"
	"strings"
	"testing"
)

// unlocked are the packages whose bytes are not held against a hash.
var unlocked = map[string]string{
	"node_modules/opencode-linux-arm64": "the registry that the lock was made with has not this version for arm64",
}

// TestLocksPinBytesAndNoRegistry: whichever registry a build asks, it can only
// give what was locked; and no file says which registry that is.
func TestLocksPinBytesAndNoRegistry(t *testing.T) {
	locks, err := fs.Glob(tree, "full/*/package-lock.json")
	if err != nil || len(locks) != 2 {
		t.Fatalf("locks: %v, %v", locks, err)
	}
	for _, name := range locks {
		text, err := tree.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "resolved") || strings.Contains(string(text), "/-/") {
			t.Errorf("%s names a registry", name)
		}
		var lock struct {
			Packages map[string]struct {
				Integrity            string
				InBundle             bool
				OptionalDependencies map[string]string
				Dependencies         map[string]string
			}
		}
		if err := json.Unmarshal(text, &lock); err != nil {
			t.Fatal(err)
		}
		for key, p := range lock.Packages {
			if key != "" && !p.InBundle && !strings.HasPrefix(p.Integrity, "sha512-") && unlocked[key] == "" {
				t.Errorf("%s: %s has no hash", name, key)
			}
		}
		var asked struct{ Dependencies, OptionalDependencies map[string]string }
		text, err = tree.ReadFile(path.Join(path.Dir(name), "package.json"))
		if err == nil {
			err = json.Unmarshal(text, &asked)
		}
		if err != nil {
			t.Fatal(err)
		}
		root := lock.Packages[""]
		for key, version := range asked.Dependencies {
			if root.Dependencies[key] != version || strings.ContainsAny(version, "^~<>*") {
				t.Errorf("%s: %s is not pinned to %s", name, key, version)
			}
		}
		for key, version := range asked.OptionalDependencies {
			if root.OptionalDependencies[key] != version || strings.ContainsAny(version, "^~<>*") {
				t.Errorf("%s: %s is not pinned to %s", name, key, version)
			}
		}
	}
}
