package budget

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
)

// ErrNoRoom: less of the disk is free than stays reserved for the user.
var ErrNoRoom = errors.New("the host's disk is nearly full, so nothing is taken in; ask the user to make room")

// Disk looks after the reserve. The zero value reserves nothing.
type Disk struct {
	Reserve int64
	// Free is how many bytes a user without privileges may still write below a
	// path; FreeOn if nil.
	Free func(path string) (int64, error)
}

// Room tells whether need bytes more below path leave the reserve. The error
// wraps ErrNoRoom where they don't. A path that is not there has room.
func (d Disk) Room(path string, need int64) error {
	look := d.Free
	if look == nil {
		look = FreeOn
	}
	free, err := look(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look how much of the disk is free: %w", err)
	case free-need < d.Reserve:
		return ErrNoRoom
	}
	return nil
}

// FreeOn asks the file system that holds path.
func FreeOn(path string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", path, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:gosec,unconvert // the types differ between systems; no disk has 2^63 bytes
}

// between is how many bytes pass from one look at the disk to the next.
const between = 16 << 20

// Reader fails with ErrNoRoom as soon as what is read of r, and written below
// path, leaves less than the reserve.
func (d Disk) Reader(path string, r io.Reader) io.Reader { return &watched{d: d, path: path, r: r} }

type watched struct {
	d    Disk
	path string
	r    io.Reader
	left int64 // until the next look
}

func (w *watched) Read(p []byte) (int, error) {
	if w.left <= 0 {
		if err := w.d.Room(w.path, between); err != nil {
			return 0, err
		}
		w.left = between
	}
	n, err := w.r.Read(p[:min(len(p), between)])
	w.left -= int64(n)
	return n, err
}
