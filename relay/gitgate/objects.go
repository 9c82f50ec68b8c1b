package gitgate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
)

// idLines writes one id per line, each after prefix.
func idLines(b *bytes.Buffer, prefix string, ids []core.ObjectID) {
	for _, id := range ids {
		b.WriteString(prefix)
		b.WriteString(string(id))
		b.WriteByte('\n')
	}
}

// revisions is the input of `--stdin` and `--revs`: what is wanted, and what
// is not.
func revisions(want, exclude []core.ObjectID) *bytes.Buffer {
	var b bytes.Buffer
	idLines(&b, "", want)
	idLines(&b, "^", exclude)
	return &b
}

// existing keeps the ids that the repository of base has an object for.
func (h *Host) existing(ctx context.Context, base command, ids []core.ObjectID) ([]core.ObjectID, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var in bytes.Buffer
	idLines(&in, "", ids)
	base.args, base.stdin = []string{"cat-file", "--batch-check=%(objectname)"}, &in
	out, err := h.run.run(ctx, base)
	if notFetched(err) {
		return h.local(ctx, base, ids)
	}
	if err != nil {
		return nil, err
	}
	var have []core.ObjectID
	for line := range strings.Lines(string(out)) {
		if id, err := core.ParseObjectID(strings.TrimSuffix(line, "\n")); err == nil { // else "<id> missing"
			have = append(have, id)
		}
	}
	return have, nil
}

// beyond tells which of the commits tips are not reached from any of from.
func (h *Host) beyond(ctx context.Context, base command, tips, from []core.ObjectID) (map[core.ObjectID]bool, error) {
	out := map[core.ObjectID]bool{}
	if len(tips) == 0 {
		return out, nil
	}
	asked := map[core.ObjectID]bool{}
	for _, tip := range tips {
		asked[tip] = true
	}
	base.args, base.stdin = []string{"rev-list", "--stdin"}, revisions(tips, from)
	err := h.run.stream(ctx, base, func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			if id := core.ObjectID(lines.Text()); asked[id] {
				out[id] = true
			}
		}
		return lines.Err()
	})
	return out, err
}

// holds tells whether all that is wanted is among the tips of a store, so that
// nothing has to be copied there.
func holds(tips, want []core.ObjectID) bool {
	return !slices.ContainsFunc(want, func(id core.ObjectID) bool { return !slices.Contains(tips, id) })
}

// isAncestor tells whether old is reached from tip. Ids that the repository
// lacks are not.
func (h *Host) isAncestor(ctx context.Context, base command, old, tip core.ObjectID) (bool, error) {
	base.args = []string{"merge-base", "--is-ancestor", string(old), string(tip)}
	_, err := h.run.run(ctx, base)
	if code := exitCode(err); code == 1 || code == 128 {
		return false, nil
	}
	return err == nil, err
}

// packing is what to copy between object stores.
type packing struct {
	from          command
	want, exclude []core.ObjectID
	// partial: objects may be missing in from, and stay missing.
	partial bool
	// store is where the objects of from are, if from is the user's repository.
	store string
}

// pack streams a pack of the objects that want reaches and exclude does not.
func (h *Host) packTo(ctx context.Context, p packing, read func(io.Reader) error) error {
	cmd := p.from
	cmd.deadline = transfer
	cmd.args = []string{"pack-objects", "-q", "--revs", "--delta-base-offset", "--stdout"}
	cmd.stdin = revisions(p.want, p.exclude)
	if !p.partial {
		return h.run.stream(ctx, cmd, read)
	}
	list := cmd
	list.args = []string{"rev-list", "--objects", "--missing=allow-promisor", "--stdin"}
	return h.run.stream(ctx, list, func(objects io.Reader) error {
		cmd.args = []string{"pack-objects", "-q", "--missing=allow-promisor", "--delta-base-offset", "--stdout"}
		cmd.stdin = objects
		return h.run.stream(ctx, cmd, read)
	})
}

// copyObjects brings the objects into a repository of ours. Where the same
// account reads and writes, git writes the finished pack in place, which is
// several times faster than indexing a stream.
func (h *Host) copyObjects(ctx context.Context, p packing, to string) error {
	if len(p.want) == 0 {
		return nil
	}
	if p.from.as == nil && !p.partial {
		cmd := p.from
		cmd.deadline = transfer
		cmd.args = []string{"pack-objects", "-q", "--revs", "--non-empty", "--delta-base-offset", filepath.Join(to, "objects", "pack", "pack")}
		cmd.stdin = revisions(p.want, p.exclude)
		if p.store != "" {
			// Git begins a pack in the object store that it works in, and renames it to
			// where it goes: that may be another disk, and the user's own gc removes
			// what was begun.
			cmd.env = append(slices.Clone(cmd.env),
				"GIT_OBJECT_DIRECTORY="+filepath.Join(to, "objects"), "GIT_ALTERNATE_OBJECT_DIRECTORIES="+quotedPath(p.store))
		}
		if _, err := h.run.run(ctx, cmd); err != nil {
			return err
		}
		return share(to)
	}
	err := h.packTo(ctx, p, func(pack io.Reader) error {
		full, err := skipEmptyPack(pack)
		if err != nil || full == nil {
			return err
		}
		cmd := h.ours(to, "index-pack", "--stdin")
		cmd.stdin, cmd.deadline = full, transfer
		_, err = h.run.run(ctx, cmd)
		return err
	})
	if err != nil {
		return err
	}
	return share(to)
}

// quotedPath is a path as an entry of a list of alternates: colons part entries,
// unless the entry is quoted (git(1), GIT_ALTERNATE_OBJECT_DIRECTORIES).
func quotedPath(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
}

// packHeader is the length of a pack's signature, version and object count
// (gitformat-pack(5)).
const packHeader = 12

// objectCount reads how many objects a pack of git's holds, and returns the
// whole pack.
func objectCount(pack io.Reader) (uint32, io.Reader, error) {
	var head [packHeader]byte
	if _, err := io.ReadFull(pack, head[:]); err != nil {
		return 0, nil, fmt.Errorf("read a pack of git's: %w", err)
	}
	return binary.BigEndian.Uint32(head[8:]), io.MultiReader(bytes.NewReader(head[:]), pack), nil
}

// skipEmptyPack returns nil for a pack without objects, else the whole pack.
func skipEmptyPack(pack io.Reader) (io.Reader, error) {
	count, whole, err := objectCount(pack)
	if err == nil && count == 0 {
		_, err = io.Copy(io.Discard, pack)
		return nil, err
	}
	return whole, err
}

// share makes the packs of a repository readable for the user of a box,
// whatever the umask; the folder above keeps others out.
func share(dir string) error {
	packs := filepath.Join(dir, "objects", "pack")
	for _, folder := range []string{filepath.Join(dir, "objects"), packs, filepath.Join(dir, "objects", "info")} {
		if err := os.Chmod(folder, 0o755); err != nil { //nolint:gosec // see above
			return err
		}
	}
	entries, err := os.ReadDir(packs)
	if err != nil {
		return err
	}
	for _, e := range entries {
		// A concurrent git removes its temporary files.
		if err := os.Chmod(filepath.Join(packs, e.Name()), 0o444); err != nil && !errors.Is(err, os.ErrNotExist) { //nolint:gosec // see above
			return err
		}
	}
	return nil
}

// listRefs reads the refs below the prefixes.
func (h *Host) listRefs(ctx context.Context, base command, prefixes ...string) ([]ref, error) {
	base.args = append([]string{"for-each-ref", "--format=%(objectname) %(*objectname) %(refname)"}, prefixes...)
	out, err := h.run.run(ctx, base)
	if err != nil {
		return nil, err
	}
	var refs []ref
	for line := range strings.Lines(string(out)) {
		if f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3); len(f) == 3 {
			refs = append(refs, ref{name: f[2], oid: core.ObjectID(f[0]), peeled: core.ObjectID(f[1])})
		}
	}
	return refs, nil
}

// change is one command of a ref transaction. An empty new value deletes; an
// empty old value means that the ref must not exist, "*" that it does not matter.
type change struct {
	ref      string
	new, old core.ObjectID
}

// anyValue in change.old moves a ref whatever it is.
const anyValue core.ObjectID = "*"

// moveRefs applies all changes or none.
func (h *Host) moveRefs(ctx context.Context, base command, format string, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	var in bytes.Buffer
	in.WriteString("start\n")
	for _, c := range changes {
		old := " " + string(c.old)
		switch c.old {
		case anyValue:
			old = ""
		case "":
			old = " " + string(zeroID(format))
		}
		if c.new == "" {
			fmt.Fprintf(&in, "delete %s%s\n", c.ref, old)
		} else {
			fmt.Fprintf(&in, "update %s %s%s\n", c.ref, c.new, old)
		}
	}
	in.WriteString("prepare\ncommit\n")
	base.args, base.stdin = []string{"update-ref", "--stdin"}, &in
	_, err := h.run.run(ctx, base)
	return err
}

// zeroID is the null id of an object format.
func zeroID(format string) core.ObjectID {
	if format == "sha256" {
		return core.ZeroID(64)
	}
	return core.ZeroID(40)
}
