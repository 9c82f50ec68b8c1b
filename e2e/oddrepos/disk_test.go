package oddrepos

import (
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/relay/gitgate"
)

// disk mounts a file system of the given size, which only root may.
func disk(t *testing.T, size string) (folder string, grow func(size string)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	folder = filepath.Join(t.TempDir(), "disk")
	check(t, os.Mkdir(folder, 0o755))
	mount := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "mount", args...).CombinedOutput(); err != nil {
			t.Fatalf("mount %q: %v: %s", args, err, out)
		}
	}
	mount("-t", "tmpfs", "-o", "size="+size, "agentbox-test", folder)
	t.Cleanup(func() {
		if out, err := exec.Command("umount", folder).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return folder, func(size string) { mount("-o", "remount,size="+size, folder) }
}

// bulk is a repository with four megabytes that do not compress.
func bulk(t *testing.T) (top, project string) {
	t.Helper()
	top = t.TempDir()
	dir := filepath.Join(top, "user")
	check(t, os.Mkdir(dir, 0o755))
	noise := make([]byte, 4<<20)
	rand.Read(noise) //nolint:errcheck // never fails
	check(t, os.WriteFile(filepath.Join(dir, "noise"), noise, 0o600))
	odd{script: `new; mv ../noise .; save; publish`}.build(t, dir)
	return top, filepath.Join(dir, "repo")
}

func TestAFullDiskOfTheHost(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	top, project := bulk(t)
	small, grow := disk(t, "1m")
	check(t, os.Symlink(small, filepath.Join(top, "state")))
	_, err := odd{}.create(t.Context(), top, project)
	if !errors.Is(err, gitgate.ErrFull) {
		t.Fatalf("the create says %v", err)
	}
	left, err := filepath.Glob(filepath.Join(small, "git", "seeds", "*", "objects", "pack", "tmp_*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	grow("32m")
	if _, err := (odd{}).create(t.Context(), top, project); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func TestAFullDiskOfTheBox(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	top, project := bulk(t)
	small, _ := disk(t, "1m")
	check(t, os.Symlink(small, filepath.Join(top, "box")))
	_, err := odd{}.create(t.Context(), top, project)
	if err == nil || !strings.Contains(err.Error(), "the box's disk has room for") {
		t.Errorf("the box says %v", err)
	}
}
