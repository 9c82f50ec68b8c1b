package gitgate

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core/atomicfile"
	"github.com/madarco/agentbox/relay/packscan"
)

// quarantine is an object store beside the gate's own, for objects of which it
// is not known yet whether they may come in. Only commands that were made for it
// see it.
type quarantine struct {
	gate *gate
	dir  string               // empty when no object came
	over *packscan.BoundError // the bound above which the user is asked
}

// quarantinePattern is how its folder is called; sweep knows the name.
const quarantinePattern = "incoming-*"

// stage scans a pack while git takes it into a quarantine: git reads no byte
// before our own decoder has judged it. Nothing of the gate changes, so it needs
// no lock while a box takes its time to send.
func (g *gate) stage(ctx context.Context, pack io.Reader) (*quarantine, error) {
	q := &quarantine{gate: g}
	if pack == nil {
		return q, nil
	}
	free, err := g.slot(ctx)
	if err != nil {
		return q, err
	}
	defer free()
	in := bufio.NewReaderSize(pack, fewBytes)
	begin, err := in.Peek(fewBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return q, fmt.Errorf("read the pack: %w", err)
	}
	var count uint32
	if len(begin) >= packHeader {
		count = binary.BigEndian.Uint32(begin[packHeader-4:])
	}
	if count == 0 {
		_, err := packscan.Scan(in, g.repo.ObjectFormat, g.h.pack)
		return q, scanError(err)
	}
	if err := q.open(); err != nil {
		return q, fmt.Errorf("make room for the pack: %w", err)
	}
	cmd := q.in("index-pack", "--stdin", "--fix-thin", "--strict")
	if count <= unpackLimit && err != nil { // the end is in sight
		cmd.args = []string{"unpack-objects", "-q", "--strict"}
	}
	cmd.config = append(cmd.config, "core.bigFileThreshold="+bigFile)
	cmd.deadline = network
	cmd.limits = g.h.largeBounds()
	if err := q.take(ctx, cmd, in); err != nil {
		return q, errors.Join(err, q.remove())
	}
	return q, nil
}

const (
	// fewBytes is up to what size git may hold a pack in memory.
	fewBytes = 1 << 20
	// bigFile is from where on git streams a file and holds it in no piece.
	bigFile = "16m"
	// cpuBytes is how many bytes git at least checks in a second.
	cpuBytes = 10 << 20
)

// largeBounds suit whoever takes in the largest pack, which git streams.
func (h *Host) largeBounds() *bounds {
	return &bounds{memory: importBounds.memory, file: 2 * h.pack.PackBytes, cpu: importBounds.cpu + h.pack.InflatedBytes/cpuBytes}
}

// take runs the command over the scanned pack.
func (q *quarantine) take(ctx context.Context, cmd command, pack io.Reader) error {
	g := q.gate
	r, w := io.Pipe()
	type scanned struct {
		packscan.Result
		err error
	}
	done := make(chan scanned, 1)
	go func() {
		result, err := packscan.Copy(w, pack, g.repo.ObjectFormat, g.h.pack)
		_ = w.CloseWithError(err) // nil is the end; else git sees an end that is too early
		done <- scanned{result, err}
	}()
	cmd.stdin = r
	_, err := g.h.run.run(ctx, cmd)
	_ = r.CloseWithError(errGitEnded)
	s := <-done
	if s.err != nil && !errors.Is(s.err, errGitEnded) {
		return scanError(s.err)
	}
	var failed *gitError
	switch {
	case errors.As(err, &failed):
		return rejected("git refuses the pack: %w", err)
	case err != nil:
		return fmt.Errorf("take in the pack: %w", err)
	case s.err != nil:
		return rejected("git did not read the pack to its end")
	}
	q.over = s.Over(g.h.ask)
	return nil
}

var errGitEnded = errors.New("git reads no more")

// scanError puts what the scanner found into words for the box.
func scanError(err error) error {
	var bound *packscan.BoundError
	if errors.Is(err, packscan.ErrMalformed) || errors.As(err, &bound) {
		return rejected("%w", err)
	}
	if err != nil {
		return fmt.Errorf("read the pack: %w", err)
	}
	return nil
}

// open makes the folder, and lets it borrow from the gate.
func (q *quarantine) open() (err error) {
	objects := filepath.Join(q.gate.dir, "objects")
	if q.dir, err = os.MkdirTemp(objects, quarantinePattern); err != nil {
		return err
	}
	info := filepath.Join(q.dir, "info")
	if err := os.Mkdir(info, 0o700); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(info, "alternates"), []byte(objects+"\n"), 0o600)
}

// in is a command in the gate that sees the quarantine, and writes there.
func (q *quarantine) in(args ...string) command {
	cmd := q.gate.in(args...)
	if q.dir != "" {
		cmd.env = append(slices.Clone(cmd.env), "GIT_OBJECT_DIRECTORY="+q.dir)
	}
	return cmd
}

// remove drops what is in quarantine.
func (q *quarantine) remove() error {
	if q.dir == "" {
		return nil
	}
	return os.RemoveAll(q.dir)
}

// release moves the objects into the gate: of a pack its index last, as git
// does, so that what is seen is there.
func (q *quarantine) release() error {
	if q.dir == "" {
		return nil
	}
	folders, err := os.ReadDir(q.dir)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		from, to := filepath.Join(q.dir, folder.Name()), filepath.Join(q.gate.dir, "objects", folder.Name())
		if folder.Name() == "info" {
			continue
		}
		files, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(to, 0o755); err != nil { //nolint:gosec // as git makes it; the gate is closed above
			return err
		}
		slices.SortStableFunc(files, func(a, b os.DirEntry) int {
			return rank(a.Name()) - rank(b.Name())
		})
		for _, f := range files {
			if err := os.Rename(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func rank(name string) int {
	if strings.HasSuffix(name, ".idx") {
		return 1
	}
	return 0
}
