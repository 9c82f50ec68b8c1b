package gitgate

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/madarco/agentbox/core"
)

// TestStoredRefsAreWhatGitLists holds our reading of the files against git's,
// through the states that a repository of ours goes through.
func TestStoredRefsAreWhatGitLists(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "r.git")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"--git-dir=" + dir, "-c", "user.name=t", "-c", "user.email=t@example.test"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q", "--bare", "--template=")
	tree := exec.Command("git", "--git-dir="+dir, "hash-object", "-t", "tree", "-w", "--stdin")
	oid, err := tree.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"one", "two"} {
		out, err := exec.Command("git", "--git-dir="+dir, "-c", "user.name=t", "-c", "user.email=t@example.test", "commit-tree", "-m", c, strings.TrimSpace(string(oid))).Output()
		if err != nil {
			t.Fatal(err)
		}
		git("update-ref", "refs/heads/"+c, strings.TrimSpace(string(out)))
	}
	h, err := New(core.Home(t.TempDir()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	same := func(state string, wantWhole bool, prefixes ...string) {
		t.Helper()
		want, err := h.listRefs(t.Context(), h.ours(dir), prefixes...)
		if err != nil {
			t.Fatal(err)
		}
		if _, whole, err := readRefFiles(dir, prefixes); err != nil || whole != wantWhole {
			t.Errorf("%s: the files alone suffice: %v, %v; want %v", state, whole, err, wantWhole)
		}
		got, err := h.storedRefs(t.Context(), dir, prefixes...)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(ref{}), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s, %v: git's list and ours differ (-git +ours):\n%s", state, prefixes, d)
		}
	}

	same("loose", true)
	git("update-ref", "refs/box/heads/agentbox/one", "refs/heads/one")
	git("update-ref", "refs/box/headsup", "refs/heads/one")
	same("below a prefix only", true, "refs/box/heads/")
	same("one ref", true, "refs/box/heads/agentbox/one")
	same("no such ref", true, "refs/nothing")
	git("tag", "-a", "-m", "annotated", "v1", "refs/heads/one")
	git("tag", "plain", "refs/heads/two")
	same("loose tags", false, "refs/heads", "refs/tags")
	git("pack-refs", "--all")
	same("packed", true)
	same("packed tags", true, "refs/tags")
	git("update-ref", "refs/heads/one", "refs/heads/two")
	same("a loose ref over a packed one", true)
	git("update-ref", "-d", "refs/heads/two")
	same("deleted", true)
	git("symbolic-ref", "refs/heads/link", "refs/heads/one")
	same("a symbolic ref", false)
	if target, err := storedTarget(dir, "refs/heads/link"); err != nil || target != "refs/heads/one" {
		t.Errorf("storedTarget = %q, %v", target, err)
	}
	if target, err := storedTarget(dir, "refs/heads/none"); err != nil || target != "" {
		t.Errorf("storedTarget of nothing = %q, %v", target, err)
	}
	git("symbolic-ref", "-d", "refs/heads/link")
	if err := os.WriteFile(filepath.Join(dir, "refs/heads/one.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	same("a ref that is being written", true)
	if err := os.Mkdir(filepath.Join(dir, "reftable"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, whole, _ := readRefFiles(dir, nil); whole {
		t.Error("refs in another form of storage count as read")
	}
}
