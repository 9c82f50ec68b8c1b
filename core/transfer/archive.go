package transfer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits bound one archive.
type Limits struct {
	Entries int   // files and folders
	Bytes   int64 // of all files
	Depth   int   // names in a path
}

// DefaultLimits are those of every copy: what a project has, and far below what
// hurts the host.
func DefaultLimits() Limits { return Limits{Entries: 20_000, Bytes: 1 << 30, Depth: 64} }

// maxName is what the common file systems take for one name, in bytes.
const maxName = 255

// ErrBadArchive is wrapped by what Read refuses.
var ErrBadArchive = errors.New("bad archive")

// Entry is a file or a folder. Path is clean and relative; its first name is the
// number of the source in the request, so that the request, not the archive, says
// how the outermost file is called.
type Entry struct {
	Path       string
	Folder     bool
	Executable bool
	Size       int64
}

// Source is the number of the source that the entry is of, and Rel its path
// below it, "." for the source itself.
func (e Entry) Source() (n int, rel string) {
	first, rest, _ := strings.Cut(e.Path, "/")
	n, _ = strconv.Atoi(first)
	return n, path.Clean(rest)
}

// Perm are the permissions that the entry gets: nothing but whether a file can
// be run comes from the other side.
func (e Entry) Perm() fs.FileMode {
	if e.Folder || e.Executable {
		return 0o755
	}
	return 0o644
}

// Read decodes an archive of this many sources from somebody who is not trusted,
// and calls each for its entries in order; content is only for a file. A folder
// comes before what it holds. Errors are ErrBadArchive, those of r and of each.
func Read(r io.Reader, sources int, limit Limits, each func(e Entry, content io.Reader) error) error {
	// Headers and padding count, too: an archive of empty extensions never ends.
	bounded := &io.LimitedReader{R: r, N: limit.Bytes + int64(limit.Entries)*(8<<10) + 1<<20}
	in := tar.NewReader(bounded)
	d := decoder{sources: sources, limit: limit, seen: map[string]bool{}}
	for {
		head, err := in.Next()
		if bounded.N <= 0 {
			return fmt.Errorf("%w: it is larger than %d bytes", ErrBadArchive, limit.Bytes)
		}
		if errors.Is(err, io.EOF) {
			return d.end()
		} else if err != nil {
			return fmt.Errorf("%w: %w", ErrBadArchive, err)
		}
		e, err := d.entry(head)
		if err != nil {
			return err
		}
		if err := each(e, in); err != nil {
			return err
		}
	}
}

type decoder struct {
	sources int
	limit   Limits
	bytes   int64
	found   int             // sources
	seen    map[string]bool // by path: whether it is a folder
}

func (d *decoder) entry(head *tar.Header) (Entry, error) {
	e := Entry{Path: strings.TrimSuffix(head.Name, "/"), Size: head.Size, Executable: head.Mode&0o100 != 0}
	switch head.Typeflag {
	case tar.TypeReg:
	case tar.TypeDir:
		e.Folder, e.Executable, e.Size = true, false, 0
	default:
		return e, fmt.Errorf("%w: it holds what is neither file nor folder", ErrBadArchive)
	}
	if err := d.name(e.Path); err != nil {
		return e, err
	}
	if d.bytes += e.Size; e.Size < 0 || d.bytes > d.limit.Bytes {
		return e, fmt.Errorf("%w: its files have more than %d bytes", ErrBadArchive, d.limit.Bytes)
	}
	if len(d.seen) >= d.limit.Entries {
		return e, fmt.Errorf("%w: it holds more than %d files and folders", ErrBadArchive, d.limit.Entries)
	}
	d.seen[e.Path] = e.Folder
	return e, nil
}

// name accepts a path once, below a folder that came before it.
func (d *decoder) name(name string) error {
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\x00\\") || !utf8.ValidString(name) || strings.Count(name, "/") >= d.limit.Depth {
		return fmt.Errorf("%w: a path is absolute, leads upwards, is too deep or no text", ErrBadArchive)
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxName {
			return fmt.Errorf("%w: a name is longer than %d bytes", ErrBadArchive, maxName)
		}
	}
	if _, again := d.seen[name]; again {
		return fmt.Errorf("%w: a path comes twice", ErrBadArchive)
	}
	if parent := path.Dir(name); parent != "." {
		if !d.seen[parent] {
			return fmt.Errorf("%w: a path lies in no folder of it", ErrBadArchive)
		}
		return nil
	}
	if d.found >= d.sources || name != strconv.Itoa(d.found) {
		return fmt.Errorf("%w: it has another source than was asked for", ErrBadArchive)
	}
	d.found++
	return nil
}

func (d *decoder) end() error {
	if d.found != d.sources {
		return fmt.Errorf("%w: a source is missing", ErrBadArchive)
	}
	return nil
}

// Writer writes an archive that Read takes.
type Writer struct{ tar *tar.Writer }

// NewWriter writes to w. Close ends the archive and leaves w open.
func NewWriter(w io.Writer) *Writer { return &Writer{tar.NewWriter(w)} }

// Add writes an entry, and from content exactly Size bytes of it.
func (w *Writer) Add(e Entry, content io.Reader) error {
	head := &tar.Header{Name: e.Path, Mode: int64(e.Perm()), Size: e.Size, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if e.Folder {
		head.Name, head.Size, head.Typeflag = e.Path+"/", 0, tar.TypeDir
	}
	if err := w.tar.WriteHeader(head); err != nil || e.Folder {
		return err
	}
	if _, err := io.CopyN(w.tar, content, e.Size); err != nil {
		return fmt.Errorf("read %s: %w", e.Path, err)
	}
	return nil
}

// Close ends the archive.
func (w *Writer) Close() error { return w.tar.Close() }
