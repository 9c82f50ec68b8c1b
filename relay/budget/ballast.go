package budget

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// Ballast is a file that takes up room for as long as there is some. On a disk
// that boxes have filled, letting it go leaves the user enough to deny, to
// destroy, and to have that written down.
type Ballast struct {
	Path string
	Size int64

	mu sync.Mutex
}

// ballastBlock is not zero, as some file systems store zeros in no room.
var ballastBlock = bytes.Repeat([]byte("room for the user"), 4096)

// Hold makes the file, unless it is there or the disk would have less room left
// than Drop waits for.
func (b *Ballast) Hold(disk Disk, folder string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if st, err := os.Stat(b.Path); err == nil && st.Size() >= b.Size {
		return nil
	}
	disk.Reserve = b.Size
	if err := disk.Room(folder, b.Size); errors.Is(err, ErrNoRoom) {
		return nil
	} else if err != nil {
		return err
	}
	f, err := os.OpenFile(b.Path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("hold room for the user: %w", err)
	}
	for left := b.Size; left > 0 && err == nil; left -= int64(len(ballastBlock)) {
		_, err = f.Write(ballastBlock[:min(left, int64(len(ballastBlock)))])
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("hold room for the user: %w", errors.Join(err, os.Remove(b.Path)))
	}
	return nil
}

// Drop gives the room back where less of it is free than the file takes.
func (b *Ballast) Drop(disk Disk, folder string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	disk.Reserve = b.Size
	if err := disk.Room(folder, 0); !errors.Is(err, ErrNoRoom) {
		return err
	}
	if err := os.Remove(b.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("give the user's room back: %w", err)
	}
	return nil
}
