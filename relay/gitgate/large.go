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
