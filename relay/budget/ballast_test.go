package budget

import (
	"os"
	"path/filepath"
	"testing"
)

// TestBallastIsThereWhileThereIsRoom, and gives its room back when there is none.
func TestBallastIsThereWhileThereIsRoom(t *testing.T) {
	dir := t.TempDir()
	b := Ballast{Path: filepath.Join(dir, "ballast"), Size: 100_000}
	var free int64
	disk := Disk{Reserve: 1 << 40, Free: func(string) (int64, error) { return free, nil }}
	size := func() int64 {
		st, err := os.Stat(b.Path)
		if err != nil {
			return -1
		}
		return st.Size()
	}
	for i, turn := range []struct {
		free int64
		do   func(Disk, string) error
		want int64
	}{
		{199_999, b.Hold, -1},
		{200_000, b.Hold, 100_000},
		{0, b.Hold, 100_000},
		{100_000, b.Drop, 100_000},
		{99_999, b.Drop, -1},
		{99_999, b.Drop, -1},
		{200_000, b.Hold, 100_000},
	} {
		free = turn.free
		if err := turn.do(disk, dir); err != nil || size() != turn.want {
			t.Errorf("turn %d with %d free: size %d, %v; want %d", i, turn.free, size(), err, turn.want)
		}
	}
	if err := os.WriteFile(b.Path, []byte("cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Hold(disk, dir); err != nil || size() != b.Size {
		t.Errorf("one that was cut: size %d, %v", size(), err)
	}
}
