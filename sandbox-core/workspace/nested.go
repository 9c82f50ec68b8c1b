package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/relay/gitgate"
)

// maxParts bounds the repositories of a project: each has a seed, a gate and a
// mount of its own.
const maxParts = 64

// findNested opens the repositories below the project's root: those in its
// first level, and the submodules that are checked out, with theirs. One that
// can't be opened stays out and is named; it stops no create.
func (p *Project) findNested(ctx context.Context, root *part) error {
	first, err := firstLevel(p.root)
	if err != nil {
		return err
	}
	level := map[string]bool{}
	for _, name := range first {
		level[name] = true
	}
	from := p.root
	if root != nil {
		if root.repo.WorkTree != p.root { // a project in a folder of a repository has only its submodules
			level, from = map[string]bool{}, root.repo.WorkTree
		}
		if err := p.submodules(ctx, root, level); err != nil {
			return err
		}
	}
	for len(level) > 0 {
		next := map[string]bool{}
		opened, err := p.openAll(ctx, from, sortedKeys(level))
		if err != nil {
			return err
		}
		for _, found := range opened {
			if p.accept(found, from) {
				if err := p.submodules(ctx, found, next); err != nil {
					return err
				}
			}
		}
		level = next
	}
	for _, part := range p.parts {
		part.nested = p.nestedIn(part.path)
	}
	return nil
}

// firstLevel lists the folders of dir that have a .git and are not hidden.
func firstLevel(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for repositories in the project: %w", err)
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, e.Name(), ".git")); err == nil {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// submodules adds those of a part by path in the project.
func (p *Project) submodules(ctx context.Context, of *part, to map[string]bool) error {
	paths, absent, err := p.git.Submodules(ctx, of.repo)
	if err != nil {
		return err
	}
	for _, name := range paths {
		to[path.Join(of.path, name)] = true
	}
	if absent > 0 {
		p.notes = append(p.notes, fmt.Sprintf("submodules of %s that are not checked out here are empty in the box: %d; git submodule update --init gets them, before the next create", of.repo.WorkTree, absent))
	}
	return nil
}

// openAll opens the repositories at the paths, in their order.
func (p *Project) openAll(ctx context.Context, from string, paths []string) ([]*part, error) {
	parts := make([]*part, len(paths))
	failed := make([]error, len(paths))
	var all errgroup.Group
	all.SetLimit(runtime.NumCPU())
	for i, name := range paths {
		all.Go(func() error {
			repo, err := p.git.Open(ctx, filepath.Join(from, name))
			parts[i], failed[i] = &part{repo: repo, kind: "nested", path: name}, err
			return ctx.Err()
		})
	}
	if err := all.Wait(); err != nil {
		return nil, context.Cause(ctx)
	}
	var opened []*part
	for i, part := range parts {
		if err := failed[i]; err != nil {
			p.leaveOut(part.path, shortReason(err))
		} else {
			opened = append(opened, part)
		}
	}
	return opened, nil
}

// accept takes a repository into the project, or says why not. What its .git
// names must be the project's own: an unpacked archive may hold a .git file
// that leads to any repository of the user's.
func (p *Project) accept(found *part, from string) bool {
	reason := ""
	_, unfit := core.ParseBoxPath("/" + found.path)
	switch own := found.repo.CommonDir; {
	case found.repo.WorkTree != filepath.Join(from, found.path):
		reason = "its files lie elsewhere"
	case !within(own, from) && (len(p.parts) == 0 || !within(own, p.parts[0].repo.CommonDir)):
		reason = "its history lies outside of the project"
	case slices.ContainsFunc(p.parts, func(o *part) bool { return o.repo.Key == found.repo.Key }):
		reason = "it is another work tree of a repository that the box has"
	case unfit != nil:
		reason = "its path can't be a path in a box"
	case len(p.parts) >= maxParts:
		reason = fmt.Sprintf("a box takes %d repositories", maxParts)
	default:
		p.parts = append(p.parts, found)
		return true
	}
	p.leaveOut(found.path, reason)
	return false
}

func (p *Project) leaveOut(name, reason string) {
	p.notes = append(p.notes, fmt.Sprintf("left out: repository %s (%s)", core.Untrusted(name).Quote(), reason))
}

// shortReason is the innermost text of an error of gitgate's.
func shortReason(err error) string {
	for _, known := range []error{gitgate.ErrUnborn, gitgate.ErrBroken, gitgate.ErrNotOwner, gitgate.ErrBare, gitgate.ErrUnsafeFolder} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return err.Error()
}

// nestedIn are the parts right below the one at a path, by path in it.
func (p *Project) nestedIn(at string) []string {
	var out []string
	for _, part := range p.parts {
		if part.path == at {
			continue
		}
		if rel, ok := inside(at, part.path); ok {
			out = append(out, rel)
		}
	}
	return out
}

// inside tells whether a slash-separated path lies below dir, and where.
func inside(dir, name string) (string, bool) {
	if dir == "" {
		return name, name != ""
	}
	return strings.CutPrefix(name, dir+"/")
}

// includedIn are those of the names of files that lie below dir, by path in it.
func includedIn(dir string, names []string, nested []string) []string {
	var out []string
	for _, name := range names {
		rel, ok := inside(dir, path.Clean(name))
		if ok && !slices.ContainsFunc(nested, func(n string) bool { _, deeper := inside(n, rel); return deeper }) {
			out = append(out, rel)
		}
	}
	return out
}

func sortedKeys(set map[string]bool) []string {
	var out []string
	for key := range set {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}
