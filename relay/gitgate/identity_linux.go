package gitgate

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// identity tells a repository from another one that later stands at the same
// path: inode and, where the file system keeps it, time of birth.
func identity(dir string) (string, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return "", fmt.Errorf("identify the repository: %w", err)
	}
	id := fmt.Sprintf("%d", st.Ino)
	if st.Mask&unix.STATX_BTIME != 0 {
		id += fmt.Sprintf("-%d.%09d", st.Btime.Sec, st.Btime.Nsec)
	}
	return id, nil
}
