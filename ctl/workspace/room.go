package workspace

import (
	"fmt"
	"syscall"
)

// scarce is so little room, in bytes, that a failure may come of it: git does
// not always say why it could not write, and removes what it has begun.
const scarce = 64 << 20

// explain adds to a failure below dir that its disk is full, or nearly.
func explain(dir string, err error) error {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return err
	}
	if free := st.Bavail * uint64(st.Bsize); free < scarce || st.Files > 0 && st.Ffree == 0 { //nolint:gosec // a size of blocks
		return fmt.Errorf("%w; the box's disk has room for %d MB and %d files: make some where the engine keeps its data", err, free>>20, st.Ffree)
	}
	return err
}
