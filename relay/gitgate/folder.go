package gitgate

import (
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

	"github.com/madarco/agentbox/core/setup"
)

// bulky are folders that tools fill and fill again, for this platform: a plain
// directory has no ignore rules that would say so.
var bulky = map[string]bool{
	"node_modules": true, ".next": true, ".nuxt": true, ".turbo": true, ".svelte-kit": true, "dist": true, "build": true, "out": true,
	"target": true, ".venv": true, "__pycache__": true, ".cache": true, ".parcel-cache": true,
}

// CaptureFolder reads a directory that no repository holds, as Capture reads
// what is untracked in one: nothing is written and no link is followed.
// Repositories below it are left to opts.Nested.
func (h *Host) CaptureFolder(ctx context.Context, dir string, opts CaptureOptions) (*Carry, error) {
	st, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("read the folder: %w", err)
	}
	owner, ok := accountOf(st)
	if !ok {
		return nil, fmt.Errorf("read %s: %w", dir, ErrNotOwner)
	}
	c := &Carry{h: h, repo: &Repository{WorkTree: dir, owner: owner}}
	paths, err := c.walk(ctx, opts)
	if err == nil {
		err = c.untracked(paths, opts.orDefaults())
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	return c, nil
}

// walk lists the files below the folder, and notes what it passes over.
func (c *Carry) walk(ctx context.Context, opts CaptureOptions) (paths []string, err error) {
	passed := map[string]int{}
	err = filepath.WalkDir(c.repo.WorkTree, func(path string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(strings.TrimPrefix(path, c.repo.WorkTree), "/")
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrPermission):
			c.note("not carried: %q, which can't be read", rel)
			return fs.SkipDir
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		case err != nil || rel == "":
			return nil
		case !d.IsDir():
			if d.Name() != ".git" {
				paths = append(paths, rel)
			}
			return nil
		case slices.Contains(opts.Nested, rel):
			return fs.SkipDir
		case bulky[d.Name()]:
			passed[d.Name()]++
			return fs.SkipDir
		}
		if _, err := os.Lstat(filepath.Join(path, ".git")); err == nil {
			paths = append(paths, rel+"/") // as git lists a repository of its own
			return fs.SkipDir
		}
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(passed)) {
		c.note("not carried: %s named %s; the box makes its own", count(passed[name], "folder"), name)
	}
	return paths, err
}

// WriteFolder writes the one section of a plain directory.
func (c *Carry) WriteFolder(w io.Writer) error {
	if err := setup.WriteSection(w, c.writeFiles); err != nil {
		return fmt.Errorf("send the files of %s: %w", c.repo.WorkTree, err)
	}
	return nil
}
