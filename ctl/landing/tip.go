package landing

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/madarco/agentbox/core"
)

// The formats are git's own: gitrepository-layout(5), git-pack-refs(1).
const (
	maxLoose    = 4 << 10
	maxSymlinks = 5
)

// readTip finds the commit of a branch without starting git; an unborn or
// deleted branch has none.
func readTip(gitDir string, branch core.BranchName) (core.ObjectID, error) {
	ref := branch.Ref()
	for range maxSymlinks {
		text, err := readLoose(filepath.Join(gitDir, filepath.FromSlash(ref)))
		if err != nil {
			return "", fmt.Errorf("read %s: %w", branch, err)
		}
		if text == "" {
			return readPacked(filepath.Join(gitDir, "packed-refs"), ref)
		}
		target, symbolic := strings.CutPrefix(text, "ref:")
		if !symbolic {
			oid, err := core.ParseObjectID(text)
			if err != nil {
				return "", fmt.Errorf("read %s: %w", branch, err)
			}
			return oid, nil
		}
		next, err := core.ParseBranchName(strings.TrimPrefix(strings.TrimSpace(target), "refs/heads/"))
		if err != nil {
			return "", fmt.Errorf("read %s: %w", branch, err)
		}
		ref = next.Ref()
	}
	return "", fmt.Errorf("read %s: symbolic refs go in a circle", branch)
}

// readLoose is the text of a ref file, "" if there is none. A folder in its
// place holds refs below, a file on its way a ref above.
func readLoose(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), err == nil && info.IsDir():
		return "", nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular(): // a FIFO would never end
		return "", errors.New("not a file")
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) { // packed just now
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLoose))
	return strings.TrimSpace(string(text)), err
}

func readPacked(path, ref string) (core.ObjectID, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read packed refs: %w", err)
	}
	defer f.Close()
	suffix := []byte(" " + ref)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if oid, ok := bytes.CutSuffix(lines.Bytes(), suffix); ok {
			return core.ParseObjectID(string(oid))
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("read packed refs: %w", err)
	}
	return "", nil
}
