package workspace

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// files removes what the user has removed, writes the files whose bytes are
// not the index's, and restores the entries that are only intended.
func (b *builder) files(ctx context.Context, section io.Reader) error {
	root, err := os.OpenRoot(b.dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only a handle
	for _, p := range b.repo.Deleted {
		if err := remove(root, string(p)); err != nil {
			return err
		}
	}
	written, err := extract(root, section)
	if err != nil {
		return err
	}
	if err := b.forget(ctx, written); err != nil {
		return err
	}
	return b.intend(ctx, root)
}

// forget makes git look at the written files anew: it would take one whose size
// is not that of the checkout for changed, even where only line ends differ.
func (b *builder) forget(ctx context.Context, written map[string]bool) error {
	if len(written) == 0 {
		return nil
	}
	out, err := b.run(ctx, nil, "ls-files", "-s", "-z")
	if err != nil {
		return err
	}
	var again bytes.Buffer
	for line := range strings.SplitSeq(out, "\x00") {
		head, name, _ := strings.Cut(line, "\t")
		if written[name] && strings.HasSuffix(head, " 0") { // not the sides of a conflict
			again.WriteString(line)
			again.WriteByte(0)
		}
	}
	_, err = b.run(ctx, &again, "update-index", "-z", "--index-info")
	return err
}

// remove deletes a file and the folders that it leaves empty.
func remove(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if root.Remove(dir) != nil {
			return nil // not empty
		}
	}
	return nil
}

// extract writes the files and links of a tar, returns their names, and reads
// the section to its end.
func extract(root *os.Root, section io.Reader) (map[string]bool, error) {
	written := map[string]bool{}
	in := tar.NewReader(section)
	for {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, section)
			return written, err
		} else if err != nil {
			return nil, err
		}
		if err := extractOne(root, head, in); err != nil {
			return nil, fmt.Errorf("write %q: %w", head.Name, err)
		}
		written[head.Name] = true
	}
}

var errBadEntry = errors.New("the host sent an entry that is no file of the work tree")

func extractOne(root *os.Root, head *tar.Header, content io.Reader) error {
	if first, _, _ := strings.Cut(head.Name, "/"); strings.EqualFold(first, ".git") {
		return errBadEntry
	}
	if err := root.MkdirAll(path.Dir(head.Name), 0o755); err != nil {
		return err
	}
	// What is there is the index's version, or a folder left empty.
	if err := root.Remove(head.Name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	switch head.Typeflag {
	case tar.TypeSymlink:
		return root.Symlink(head.Linkname, head.Name)
	case tar.TypeReg:
		f, err := root.OpenFile(head.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, os.FileMode(head.Mode)&0o777) //nolint:gosec // masked
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Close())
	}
	return errBadEntry
}

// intend runs `git add -N`, for which a file must exist for a moment.
func (b *builder) intend(ctx context.Context, root *os.Root) error {
	if len(b.repo.IntentToAdd) == 0 {
		return nil
	}
	var absent []string
	for _, raw := range b.repo.IntentToAdd {
		name := string(raw)
		if _, err := root.Lstat(name); err == nil {
			continue
		}
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(name, nil, 0o644); err != nil {
			return err
		}
		absent = append(absent, name)
	}
	list := bytes.Join(b.repo.IntentToAdd, []byte{0})
	if _, err := b.run(ctx, bytes.NewReader(list), "add", "-N", "-f", "--pathspec-from-file=-", "--pathspec-file-nul"); err != nil {
		return err
	}
	for _, name := range absent {
		if err := remove(root, name); err != nil {
			return err
		}
	}
	return nil
}
