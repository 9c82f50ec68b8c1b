package treecheck

import (
	"io"
	"math"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/redlist"
)

// change is what the red list must know of a raw line.
func (r rawLine) change(path string, large map[core.ObjectID]bool) redlist.Change {
	return redlist.Change{
		Path: path, Link: r.mode == modeLink, Submodule: r.mode == modeSubmodule,
		Executable: r.mode == modeExecutable && !r.wasExecutable, Large: large[r.oid],
	}
}

// Large names the blobs that are on the red list for their size; it comes before
// Changes.
func (c *Check) Large(blobs map[core.ObjectID]bool) { c.large = blobs }

// list keeps a change that is on the red list. Commits may each make something
// else of one path.
func (c *Check) list(change redlist.Change) {
	if len(change.Classes()) == 0 {
		return
	}
	before := c.red[change.Path]
	change.Link = change.Link || before.Link
	change.Submodule = change.Submodule || before.Submodule
	change.Executable = change.Executable || before.Executable
	change.Large = change.Large || before.Large
	c.red[change.Path] = change
}

// RedList is what the commits changed of the red list, whatever is left of it at
// the tip.
func (c *Check) RedList() []redlist.Group {
	var list redlist.List
	for _, change := range c.red {
		list.Add(change)
	}
	return list.Groups()
}

// Difference reads what `git diff-tree -r -z --raw --no-abbrev --no-renames` prints
// of two commits that have passed a Check: how many paths differ, and what of the
// red list. Its memory does not grow with them.
func Difference(r io.Reader, large map[core.ObjectID]bool) (files int, red []redlist.Group, err error) {
	var list redlist.List
	passed := Limits{PathBytes: 1 << 20, Depth: math.MaxInt64} // the user's own paths were never held against Defaults
	err = passed.each(r, func(path string, raw rawLine) error {
		files++
		list.Add(raw.change(path, large))
		return nil
	})
	return files, list.Groups(), err
}
