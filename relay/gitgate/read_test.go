package gitgate

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/madarco/agentbox/relay/treecheck"
)

// TestNoLinkIsFollowed reads a work tree in which links lead to a secret.
func TestNoLinkIsFollowed(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600),
		os.WriteFile(filepath.Join(root, "plain"), []byte("plain"), 0o700), //nolint:gosec // a program
		os.Symlink(outside, filepath.Join(root, "folder")),
		os.Symlink(filepath.Join(outside, "secret"), filepath.Join(root, "link")),
		syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600),
		os.Mkdir(filepath.Join(root, "real"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w := workTree{root, ourselves().uid}
	for path, want := range map[string]error{
		"folder/secret": os.ErrNotExist, "real": os.ErrNotExist, "missing": os.ErrNotExist, "plain/x": os.ErrNotExist,
		"pipe": errNotCarried, "../" + filepath.Base(outside) + "/secret": errNotCarried, "real/../plain": errNotCarried, "/plain": errNotCarried,
	} {
		f, err := w.open(path)
		f.close()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if f, err := w.open("link"); err != nil || f.File != nil || f.link != filepath.Join(outside, "secret") {
		t.Errorf("a link: %+v, %v", f, err)
	}
	if _, err := w.text("link", 100); !errors.Is(err, errNotCarried) {
		t.Errorf("the text of a link: %v", err)
	}
	f, err := w.open("plain")
	if err != nil || f.size != 5 || !f.exec {
		t.Errorf("a file: %+v, %v", f, err)
	}
	f.close()
}

// FuzzGitOutput reads what git prints about a box's objects and a remote's refs.
func FuzzGitOutput(f *testing.F) {
	f.Add("000eunpack ok\n0019ok refs/heads/main\n0000")
	f.Add("To x\n*\tabc:refs/heads/x\t[new branch]\nDone\n")
	f.Add("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 blob 3\nabc\n")
	f.Add("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 blob -9\n")
	f.Add("core.x\nvalue\x00flag\x00")
	f.Add("100644 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 0\tpath\x00")
	f.Fuzz(func(t *testing.T, text string) {
		if refused, err := readReport(strings.NewReader(text), 1); err == nil && refused == nil {
			t.Error("a report without an answer")
		}
		_, _ = readPorcelain(strings.NewReader(text))
		_ = oneContent(bufio.NewReader(strings.NewReader(text)), treecheck.New(treecheck.Defaults))
		for key := range pairs([]byte(text)) {
			if key == "" {
				t.Error("an empty key")
			}
		}
		for line := range items([]byte(text)) {
			_, _, _ = parseIndex(line)
		}
		_ = rawItems([]byte(text), func(byte, string) {})
	})
}
