package gitgate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// errNotCarried is wrapped with the reason why a file stays out of a box.
var errNotCarried = errors.New("not carried")

// workTree reads files below a folder without ever following a link: neither
// the file's own name nor any folder on the way may be one.
type workTree struct {
	root  string
	owner uint32
}

// file is what lies at a path: a link with its target, or a regular file that
// is open for reading.
type file struct {
	*os.File
	link string
	size int64
	exec bool
}

// open opens the file at a slash-separated path. The error wraps
// os.ErrNotExist where nothing is, errNotCarried where something else is.
func (w workTree) open(path string) (f file, err error) {
	dir, err := unix.Open(w.root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return f, &os.PathError{Op: "open", Path: w.root, Err: err}
	}
	defer func() { _ = unix.Close(dir) }()
	parts := strings.Split(path, "/")
	for _, part := range parts[:len(parts)-1] {
		if part == ".." || part == "." || part == "" {
			return f, fmt.Errorf("%s: %w: a path that leads elsewhere", path, errNotCarried)
		}
		next, err := unix.Openat(dir, part, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			err = unix.ENOENT // a file or a link stands where the folder was
		}
		if err != nil {
			return f, &os.PathError{Op: "open", Path: path, Err: err}
		}
		_ = unix.Close(dir)
		dir = next
	}
	return w.openLast(dir, parts[len(parts)-1], path)
}

func (w workTree) openLast(dir int, name, path string) (f file, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return f, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target := make([]byte, 4097)
		n, err := unix.Readlinkat(dir, name, target)
		if err != nil || n == len(target) {
			return f, fmt.Errorf("%s: %w: the link can't be read", path, errNotCarried)
		}
		return file{link: string(target[:n])}, nil
	case unix.S_IFREG:
	case unix.S_IFDIR:
		return f, &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
	default:
		return f, fmt.Errorf("%s: %w: neither a file nor a link", path, errNotCarried)
	}
	if st.Uid != w.owner && st.Mode&0o004 == 0 {
		return f, fmt.Errorf("%s: %w: it belongs to another user", path, errNotCarried)
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return f, &os.PathError{Op: "open", Path: path, Err: err}
	}
	opened := os.NewFile(uintptr(fd), filepath.Join(w.root, path))
	info, err := opened.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w: it changed while it was read", path, errNotCarried)
	}
	if err != nil {
		return f, errors.Join(err, opened.Close())
	}
	return file{File: opened, size: info.Size(), exec: info.Mode()&0o100 != 0}, nil
}

func (f file) close() {
	if f.File != nil {
		_ = f.Close()
	}
}

// text reads a small file whole, "" if there is none.
func (w workTree) text(path string, limit int64) (string, error) {
	f, err := w.open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	defer f.close()
	if f.File == nil || f.size > limit {
		return "", fmt.Errorf("%s: %w: a link, or longer than %d bytes", path, errNotCarried, limit)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return string(data), err
}
