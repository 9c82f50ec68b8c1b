package gitgate

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
)

// storedRefs lists the refs below the prefixes of a repository of ours, as
// listRefs does. Every landing asks several times, and starting a process for
// each is what would take longest in it; so the files are read here, and git is
// asked only about what they alone don't tell.
func (h *Host) storedRefs(ctx context.Context, dir string, prefixes ...string) ([]ref, error) {
	refs, whole, err := readRefFiles(dir, prefixes)
	if err != nil || whole {
		return refs, err
	}
	return h.listRefs(ctx, h.ours(dir), prefixes...)
}

// usersRefs is storedRefs in the user's repository. Another account's files are
// for a process of its own to read.
func (h *Host) usersRefs(ctx context.Context, r *Repository, prefixes ...string) ([]ref, error) {
	if r.owner.as == nil {
		if refs, whole, err := readRefFiles(r.CommonDir, prefixes); err == nil && whole {
			return refs, nil
		}
	}
	return h.listRefs(ctx, h.theirs(r), prefixes...)
}

// readRefFiles reads refs as git's files backend keeps them
// (gitrepository-layout(5)): loose ones first, because git packs a ref before
// it removes the loose file. whole is false when something needs git: a
// symbolic ref, a loose tag, which may point to an annotation, or another form
// of storage.
func readRefFiles(dir string, prefixes []string) (refs []ref, whole bool, err error) {
	if _, err := os.Lstat(filepath.Join(dir, "reftable")); err == nil {
		return nil, false, nil
	}
	if len(prefixes) == 0 {
		prefixes = []string{"refs"}
	}
	found := map[string]ref{}
	for _, prefix := range prefixes {
		if whole, err := readLoose(dir, strings.TrimSuffix(prefix, "/"), found); err != nil || !whole {
			return nil, false, err
		}
	}
	packed, err := os.ReadFile(filepath.Join(dir, "packed-refs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	if !readPacked(packed, prefixes, found) {
		return nil, false, nil
	}
	for _, r := range found {
		refs = append(refs, r)
	}
	slices.SortFunc(refs, func(a, b ref) int { return strings.Compare(a.name, b.name) })
	return refs, true, nil
}

// readLoose adds the loose refs at and below a name.
func readLoose(dir, name string, found map[string]ref) (whole bool, err error) {
	whole = true
	err = filepath.WalkDir(filepath.Join(dir, filepath.FromSlash(name)), func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // no such ref, or packed at this moment
			return nil
		case err != nil:
			return err
		case e.IsDir() || strings.HasSuffix(path, ".lock"):
			return nil
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		r := ref{name: filepath.ToSlash(rel)}
		if r.oid, err = core.ParseObjectID(strings.TrimSuffix(string(text), "\n")); err != nil || strings.Contains(r.name, "/tags/") {
			whole = false
			return fs.SkipAll
		}
		found[r.name] = r
		return nil
	})
	return whole, err
}

// readPacked adds the packed refs below the prefixes that are not loose. It
// reports whether the file says what its tags point to.
func readPacked(text []byte, prefixes []string, found map[string]ref) bool {
	if len(text) == 0 {
		return true
	}
	if head, _, _ := bytes.Cut(text, []byte("\n")); !bytes.Contains(head, []byte(" fully-peeled ")) {
		return false
	}
	last := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if peeled, ok := strings.CutPrefix(line, "^"); ok {
			if r, ok := found[last]; ok {
				r.peeled = core.ObjectID(peeled)
				found[last] = r
			}
			continue
		}
		oid, name, ok := strings.Cut(line, " ")
		last = ""
		if _, loose := found[name]; !ok || strings.HasPrefix(line, "#") || loose || !below(name, prefixes) {
			continue
		}
		found[name], last = ref{name: name, oid: core.ObjectID(oid)}, name
	}
	return true
}

func below(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		rest, ok := strings.CutPrefix(name, strings.TrimSuffix(prefix, "/"))
		return ok && (rest == "" || rest[0] == '/')
	})
}

// storedTarget is what a symbolic ref of a repository of ours points to, "" if
// there is no such ref.
func storedTarget(dir, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	target, _ := strings.CutPrefix(strings.TrimSuffix(string(text), "\n"), "ref: ")
	return target, err
}
