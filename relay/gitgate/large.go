package gitgate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/atomicfile"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay/packscan"
)

// A pack above the user's bound comes in, and what it brought is asked about. The
// size of a pack can't be told from the commits later, so it is written down
// beside the gate's objects, for the commit that came with it.
const largeFolder = "large"

// The size of a file can't be told from a difference of trees. What the look at
// new commits has found out is written down too, one empty file for each, so that
// a later push of many commits shows it. maxLargeFiles bounds what a box can make
// the gate write; large files beyond it are shown while they are new, and no more.
const (
	largeFilesFolder = "large-files"
	maxLargeFiles    = 10_000
)

// markFiles notes the large files that come in.
func (g *gate) markFiles(blobs map[core.ObjectID]bool) error {
	if len(blobs) == 0 {
		return nil
	}
	known, err := g.largeFiles()
	if err != nil {
		return err
	}
	dir := filepath.Join(g.dir, largeFilesFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("note large files: %w", err)
	}
	for blob := range blobs {
		if known[blob] || len(known) >= maxLargeFiles {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, string(blob)), nil, 0o600); err != nil {
			return fmt.Errorf("note large files: %w", err)
		}
		known[blob] = true
	}
	return nil
}

// largeFiles are the blobs that markFiles has noted.
func (g *gate) largeFiles() (map[core.ObjectID]bool, error) {
	marks, err := os.ReadDir(filepath.Join(g.dir, largeFilesFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for large files: %w", err)
	}
	blobs := make(map[core.ObjectID]bool, len(marks))
	for _, m := range marks {
		blobs[core.ObjectID(m.Name())] = true
	}
	return blobs, nil
}

// mark notes that a commit came with a pack above the user's bound.
func (g *gate) mark(q *quarantine, tip core.ObjectID) error {
	if q.over == nil {
		return nil
	}
	dir := filepath.Join(g.dir, largeFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("note the size of a pack: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, string(tip)), []byte(inWords(q.over)), 0o600); err != nil {
		return fmt.Errorf("note the size of a pack: %w", err)
	}
	return nil
}

// inWords completes "the commits hold …".
func inWords(over *packscan.BoundError) string {
	if over.Bound == packscan.BoundObjects {
		return fmt.Sprintf("%d objects in one pack, more than the %d that go unasked", over.Got, over.Limit)
	}
	const mib = 1 << 20
	return fmt.Sprintf("%d MiB in one pack, more than the %d MiB that go unasked", (over.Got+mib-1)/mib, over.Limit/mib)
}

// large finds, among commits that were listed as lines, those that were marked.
func (g *gate) large(listed []byte) ([]policy.Finding, error) {
	marks, err := os.ReadDir(filepath.Join(g.dir, largeFolder))
	if len(marks) == 0 || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("look for large packs: %w", err)
	}
	var found []policy.Finding
	for id := range strings.Lines(string(listed)) {
		text, err := os.ReadFile(filepath.Join(g.dir, largeFolder, strings.TrimSuffix(id, "\n")))
		if err == nil {
			found = append(found, policy.Finding{Rule: string(text)})
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("look for large packs: %w", err)
		}
	}
	return found, nil
}
