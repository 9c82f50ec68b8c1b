//go:build unix && !linux

package gitgate

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// identity tells a repository from another one that later stands at the same
// path, by its inode.
func identity(dir string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return "", fmt.Errorf("identify the repository: %w", err)
	}
	return fmt.Sprintf("%d", st.Ino), nil
}
