package gitgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// lfsBytes bounds what is carried of the contents that git-lfs keeps.
const lfsBytes = 2 << 30

// lfsPointer is how a pointer begins (the git-lfs specification, "The Pointer");
// one has less than lfsPointerSize bytes.
const (
	lfsPointer     = "version https://git-lfs.github.com/spec/"
	lfsPointerSize = 1024
)

// noteFilter remembers the driver that a configuration key belongs to. One
// whose name can't stand on a command line can't be turned off there, and git
// then runs it as for the user's own git status.
func (r *Repository) noteFilter(key string) {
	rest, ok := strings.CutPrefix(key, "filter.")
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot <= 0 || strings.ContainsAny(rest[:dot], "=\n\x00") || slices.Contains(r.filters, rest[:dot]) {
		return
	}
	r.filters = append(r.filters, rest[:dot])
}

// usesLFS tells whether files of the work tree may be the contents of pointers.
func (r *Repository) usesLFS() bool {
	if slices.Contains(r.filters, "lfs") {
		return true
	}
	_, err := os.Stat(filepath.Join(r.CommonDir, "lfs"))
	return err == nil
}

// readLFS carries the contents that git-lfs has put in the place of pointers.
// git takes such a file for unchanged, and the box has no git-lfs server to get
// it from.
func (c *Carry) readLFS(ctx context.Context, _ CaptureOptions) error {
	if !c.repo.usesLFS() {
		return nil
	}
	cmd := c.h.theirs(c.repo, "ls-files", "-z", "--", ":(top,attr:filter=lfs)")
	cmd.deadline = capture
	cmd.env = append(cmd.env, "GIT_LITERAL_PATHSPECS=0")
	out, err := c.h.run.run(ctx, cmd)
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	for _, f := range c.files {
		listed[f] = true
	}
	pointers, over, total := 0, 0, int64(0)
	for path := range items(out) {
		c.LFS = true
		if listed[path] {
			continue
		}
		listed[path] = true // a path in conflict has several lines
		size, real, err := c.lfsContent(path)
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, errNotCarried):
		case err != nil:
			return err
		case !real:
			pointers++
		case total+size > lfsBytes:
			over++
		default:
			total += size
			c.files = append(c.files, path)
		}
	}
	if pointers > 0 {
		c.note("git-lfs: %s stay pointers, because their contents are not here; git lfs pull gets them, before the next create", count(pointers, "file"))
	}
	if over > 0 {
		c.note("git-lfs: %s stay pointers in the box, because all together exceed %d GB", count(over, "file"), lfsBytes>>30)
	}
	return nil
}

// lfsContent tells whether the file is content and no pointer, and its size.
func (c *Carry) lfsContent(path string) (size int64, real bool, err error) {
	f, err := c.tree().open(path)
	if err != nil || f.File == nil {
		return 0, false, err
	}
	defer f.close()
	if f.size >= lfsPointerSize {
		return f.size, true, nil
	}
	text, err := io.ReadAll(io.LimitReader(f, lfsPointerSize))
	return f.size, f.size > 0 && !bytes.HasPrefix(text, []byte(lfsPointer)), err
}

// note adds a sentence for people.
func (c *Carry) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
