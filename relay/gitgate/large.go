package gitgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	if err := atomicfile.Write(filepath.Join(dir, string(tip)), []byte(inWords(q.over, "one pack")), 0o600); err != nil {
		return fmt.Errorf("note the size of a pack: %w", err)
	}
	return nil
}

// inWords completes "the commits hold …".
func inWords(over *packscan.BoundError, where string) string {
	if over.Bound == packscan.BoundObjects {
		return fmt.Sprintf("%d objects in %s, more than the %d that go unasked", over.Got, where, over.Limit)
	}
	const mib = 1 << 20
	return fmt.Sprintf("%d MiB in %s, more than the %d MiB that go unasked", (over.Got+mib-1)/mib, where, over.Limit/mib)
}

// heavy finds large files above the user's bound, whatever pack they came with: a
// box may hand them in with one commit and put them into another.
func (g *gate) heavy(ctx context.Context, in view, blobs map[core.ObjectID]bool) ([]policy.Finding, error) {
	if len(blobs) == 0 {
		return nil, nil
	}
	var ids bytes.Buffer
	idLines(&ids, "", slices.Collect(maps.Keys(blobs)))
	cmd := in("cat-file", "--batch-check=%(objectsize) %(objectsize:disk)")
	cmd.stdin = &ids
	var all packscan.Result
	err := g.h.run.stream(ctx, cmd, func(r io.Reader) error {
		return eachRecord(r, '\n', func(line []byte) error {
			var size, disk int64
			if _, err := fmt.Sscan(string(line), &size, &disk); err != nil {
				return errGitOutput
			}
			all.Largest = max(all.Largest, size)
			all.Inflated, all.Bytes = all.Inflated+size, all.Bytes+disk
			return nil
		})
	})
	if over := all.Over(g.h.ask); over != nil && err == nil {
		return []policy.Finding{{Rule: inWords(over, "large files")}}, nil
	}
	return nil, unreadable(err)
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
