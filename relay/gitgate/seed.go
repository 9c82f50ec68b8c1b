package gitgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/atomicfile"
)

// ErrReplaced: another repository stands where a seed's own stood, and boxes
// still read from that seed.
var ErrReplaced = errors.New("another repository was here when the boxes of this project were made; destroy them first")

// seedMeta is what the seed remembers about the user's repository, in the file
// named metaFile.
type seedMeta struct {
	Repository string          `json:"repository"`
	Shallow    []core.ObjectID `json:"shallow,omitempty"`
}

const metaFile = "agentbox.json"

// seedPrefix is where a seed keeps the refs of a remote: heads/ and tags/
// below it.
func seedPrefix(remote core.RemoteName) string { return "refs/seed/remotes/" + string(remote) + "/" }

// keepRef holds a commit that no branch holds any more, because a box may
// have built on it.
func keepRef(id core.ObjectID) string { return "refs/seed/keep/" + string(id) }

// RefreshSeed brings what the user's repository knows of the push remote into
// the seed, which it makes if it is missing. What the remote itself has told
// since is newer and stays: the user's view only moves the seed forward.
func (h *Host) RefreshSeed(ctx context.Context, r *Repository) error {
	unlock, err := h.lock(ctx, r.Key, true)
	if err != nil {
		return err
	}
	defer unlock()
	meta, err := h.openSeed(r)
	if err != nil {
		return fmt.Errorf("open the seed store: %w", err)
	}
	if err := h.fillSeed(ctx, r, meta); err != nil {
		return fmt.Errorf("refresh the seed store: %w", errors.Join(err, sweepSeed(h.home.Seed(r.Key))))
	}
	return nil
}

func (h *Host) fillSeed(ctx context.Context, r *Repository, meta seedMeta) error {
	dir := h.home.Seed(r.Key)
	seed := h.ours(dir)
	have, err := h.storedRefs(ctx, dir)
	if err != nil {
		return err
	}
	current := map[string]core.ObjectID{}
	var tips []core.ObjectID
	for _, ref := range have {
		current[ref.name] = ref.oid
		tips = append(tips, ref.oid)
	}
	prefix := seedPrefix(r.Remote)
	var moved []ref
	for _, v := range r.visible {
		v.name = prefix + v.name[len("refs/"):]
		if current[v.name] != v.oid && current[keepRef(v.oid)] == "" {
			moved = append(moved, v)
		}
	}
	reshaped := !slices.Equal(meta.Shallow, r.Shallow)
	if len(moved) == 0 && !reshaped {
		return nil
	}
	var exclude []core.ObjectID
	if !reshaped { // else what the tips reach has changed
		if exclude, err = h.existing(ctx, h.theirs(r), tips); err != nil {
			return err
		}
	}
	p := packing{from: h.theirs(r), exclude: exclude, partial: r.Partial, store: filepath.Join(r.CommonDir, "objects")}
	for _, m := range moved {
		p.want = append(p.want, m.oid)
	}
	if reshaped {
		for _, v := range r.visible {
			p.want = append(p.want, v.oid)
		}
	}
	if err := h.copyObjects(ctx, p, dir); err != nil {
		return err
	}
	if reshaped {
		if err := h.reshape(dir, r); err != nil {
			return err
		}
	}
	changes, err := h.forward(ctx, seed, moved, current)
	if err != nil {
		return err
	}
	return h.moveSeed(ctx, seed, r.ObjectFormat, changes)
}

// moveSeed moves refs of the seed, and packs them: every box's landing reads
// them all, and a packed tag says what it points to.
func (h *Host) moveSeed(ctx context.Context, seed command, format string, changes []change) error {
	if err := h.moveRefs(ctx, seed, format, changes); err != nil || len(changes) == 0 {
		return err
	}
	seed.args = []string{"pack-refs", "--all"}
	_, err := h.run.run(ctx, seed)
	return err
}

// forward moves each ref that the new value contains, and only keeps the
// others: the seed has a later word of the remote about them.
func (h *Host) forward(ctx context.Context, seed command, moved []ref, current map[string]core.ObjectID) ([]change, error) {
	var changes []change
	kept := map[core.ObjectID]bool{}
	for _, m := range moved {
		old, newer := current[m.name], true
		if old != "" {
			var err error
			if newer, err = h.isAncestor(ctx, seed, old, m.oid); err != nil {
				return nil, err
			}
		}
		switch {
		case newer:
			changes = append(changes, change{m.name, m.oid, old})
		case !kept[m.oid]:
			kept[m.oid] = true
			changes = append(changes, change{keepRef(m.oid), m.oid, anyValue})
		}
	}
	return changes, nil
}

// openSeed makes the seed if it is missing, and refuses one of a repository
// that is no longer there.
func (h *Host) openSeed(r *Repository) (seedMeta, error) {
	dir := h.home.Seed(r.Key)
	var meta seedMeta
	text, err := os.ReadFile(filepath.Join(dir, metaFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return seedMeta{Repository: r.id}, makeRepository(dir, r.ObjectFormat, func(temp string) error {
			return errors.Join(share(temp), writeMeta(temp, seedMeta{Repository: r.id}))
		})
	case err != nil:
		return meta, err
	}
	if err := json.Unmarshal(text, &meta); err != nil {
		return meta, fmt.Errorf("read %s: %w", filepath.Join(dir, metaFile), err)
	}
	if meta.Repository == r.id {
		return meta, nil
	}
	gates, err := filepath.Glob(h.home.Gate("*", r.Key))
	if err != nil {
		return meta, err
	}
	if len(gates) > 0 {
		return meta, ErrReplaced
	}
	if err := os.RemoveAll(dir); err != nil {
		return meta, err
	}
	return h.openSeed(r)
}

// reshape takes over the boundary of the user's shallow clone.
func (h *Host) reshape(dir string, r *Repository) error {
	if err := writeShallow(dir, r.Shallow); err != nil {
		return err
	}
	return writeMeta(dir, seedMeta{Repository: r.id, Shallow: r.Shallow})
}

func writeShallow(dir string, boundary []core.ObjectID) error {
	path := filepath.Join(dir, "shallow")
	if len(boundary) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	var text []byte
	for _, id := range boundary {
		text = append(append(text, id...), '\n')
	}
	return atomicfile.Write(path, text, 0o600)
}

func writeMeta(dir string, meta seedMeta) error {
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, metaFile), append(text, '\n'), 0o600)
}
