package landing

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/madarco/agentbox/core"
)

func TestReadTip(t *testing.T) {
	a, b := string(oid(0xa)), string(oid(0xb))
	for name, c := range map[string]struct {
		files map[string]string
		want  core.ObjectID
		fails bool
	}{
		"unborn":                     {},
		"loose":                      {files: map[string]string{"refs/heads/x/y": a + "\n"}, want: oid(0xa)},
		"packed":                     {files: map[string]string{"packed-refs": "# pack-refs with: peeled\n" + b + " refs/heads/x/y2\n" + a + " refs/heads/x/y\n^" + b + "\n"}, want: oid(0xa)},
		"loose beats packed":         {files: map[string]string{"refs/heads/x/y": b, "packed-refs": a + " refs/heads/x/y\n"}, want: oid(0xb)},
		"a folder of refs below":     {files: map[string]string{"refs/heads/x/y/z": a, "packed-refs": b + " refs/heads/x/y\n"}, want: oid(0xb)},
		"a ref above":                {files: map[string]string{"refs/heads/x": a}},
		"symbolic":                   {files: map[string]string{"refs/heads/x/y": "ref: refs/heads/main\n", "refs/heads/main": a}, want: oid(0xa)},
		"symbolic, packed":           {files: map[string]string{"refs/heads/x/y": "ref: refs/heads/main", "packed-refs": a + " refs/heads/main\n"}, want: oid(0xa)},
		"a circle":                   {files: map[string]string{"refs/heads/x/y": "ref: refs/heads/x/y"}, fails: true},
		"symbolic out of the folder": {files: map[string]string{"refs/heads/x/y": "ref: refs/heads/../../../../etc/passwd"}, fails: true},
		"torn":                       {files: map[string]string{"refs/heads/x/y": a[:20]}, fails: true},
		"empty after a crash":        {files: map[string]string{"refs/heads/x/y": ""}},
		"long":                       {files: map[string]string{"refs/heads/x/y": strings.Repeat("a", 1<<20)}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range c.files {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := readTip(dir, "x/y")
			if got != c.want || (err != nil) != c.fails {
				t.Errorf("readTip = %q, %v; want %q, an error: %v", got, err, c.want, c.fails)
			}
		})
	}
}

func TestReadTipDoesNotHangOnAFIFO(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "refs/heads"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "refs/heads/x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readTip(dir, "x"); err == nil {
		t.Error("a FIFO reads as a branch")
	}
}

func TestOnlyRefsOnTheWayToTheBranchesMatter(t *testing.T) {
	dirs := watchedDirs("/r/.git", []core.BranchName{"agentbox/b", "agentbox/c", "main", "a/b/c"})
	want := "/r/.git /r/.git/refs /r/.git/refs/heads /r/.git/refs/heads/agentbox /r/.git/refs/heads/a /r/.git/refs/heads/a/b"
	if got := strings.Join(dirs, " "); got != want {
		t.Errorf("watchedDirs = %s, want %s", got, want)
	}
	s := &sentry{gitDir: "/r/.git"}
	for path, want := range map[string]bool{
		"/r/.git/HEAD": true, "/r/.git/packed-refs": true, "/r/.git/refs": true,
		"/r/.git/refs/heads/x": true, "/r/.git/refs/heads/agentbox": true,
		"/r/.git/HEAD.lock": false, "/r/.git/refs/heads/x.lock": false,
		"/r/.git/index": false, "/r/.git/COMMIT_EDITMSG": false, "/r/.git/objects": false,
	} {
		if got := s.matters(path); got != want {
			t.Errorf("matters(%s) = %v", path, got)
		}
	}
}
