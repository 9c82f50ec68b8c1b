// Package treecheck judges what a box changed in its trees, from the text that
// git's plumbing prints about them. It is pure: it starts no git and touches no
// file system.
//
// A tree may hold what git itself lets pass and what turns on the user at the
// next checkout: a folder that git takes for a repository of its own, a link
// that leads out, two names that one file system takes for one. Such commits
// are held until a person has looked.
//
// Invariants:
//   - Paths, their length, depth and number are bounded before any rule sees them.
//   - A rule that cannot see what it must judge counts as hit.
//   - What is on the red list is told of and holds nothing by itself.
package treecheck

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/redlist"
)

// ErrMalformed is wrapped when the text is not what git prints.
var ErrMalformed = errors.New("malformed tree listing")

// Limits bound a change. A change at a limit passes.
type Limits struct {
	// Paths counts changed paths, over all commits of the change.
	Paths int64
	// PathBytes is the length of one path, Depth the number of its folders.
	PathBytes int64
	Depth     int64
	// TreePaths counts the paths of a whole tree.
	TreePaths int64
	// Findings is how many are kept; more than that no person reads.
	Findings int
}

// Defaults suit a landing or push without a question.
var Defaults = Limits{Paths: 50_000, PathBytes: 4096, Depth: 256, TreePaths: 1_000_000, Findings: 100}

// BoundError says which limit a change exceeds.
type BoundError struct {
	Bound string
	Limit int64
	Got   int64
}

func (e *BoundError) Error() string {
	return fmt.Sprintf("the commits are over a bound: %d %s, at most %d are taken", e.Got, e.Bound, e.Limit)
}

// Git's modes of tree entries that the rules tell apart.
const (
	modeLink       = 0o120000
	modeSubmodule  = 0o160000
	modeExecutable = 0o100755
	modeGone       = 0
)

// Check gathers what a change holds. Use: Changes, then Side for each side of the
// merges in it, then Content for what Wants lists, then Tree if NeedsTree, then
// Findings.
type Check struct {
	limits Limits
	// changed is every path that some commit of the change wrote or removed.
	changed map[string]bool
	// written holds, for each path that some commit wrote, whether as a link.
	written map[string]bool
	wants   map[core.ObjectID][]want
	grew    bool
	hits    map[policy.Finding]bool
	// red is what some commit changed of the red list, by path; large are the blobs
	// that are on it for their size.
	red   map[string]redlist.Change
	large map[core.ObjectID]bool

	// Of the tree, and of what was there before: links by folded name, and members
	// of the folders in doubt.
	links   map[string]string
	folders map[string]members

	// sides are the folders that got members, seen from each side of merges.
	sides []map[string]bool
}

// want is a path whose content a rule must judge.
type want struct {
	path string
	rule *rule
}

// New starts a check.
func New(limits Limits) *Check {
	return &Check{
		limits:  limits,
		changed: map[string]bool{},
		written: map[string]bool{},
		wants:   map[core.ObjectID][]want{},
		hits:    map[policy.Finding]bool{},
		red:     map[string]redlist.Change{},
		links:   map[string]string{},
		folders: map[string]members{},
	}
}

// Paths is how many paths the change touches.
func (c *Check) Paths() int { return len(c.changed) }

// Changes reads what `git diff-tree -r -z --raw --no-abbrev --no-renames
// --no-commit-id` prints, with or without -c. It may be called once per stream.
func (c *Check) Changes(r io.Reader) error {
	return c.limits.each(r, func(path string, raw rawLine) error {
		c.changed[path] = true
		c.list(raw.change(path, c.large))
		if got := int64(len(c.changed)); got > c.limits.Paths {
			return &BoundError{"changed paths", c.limits.Paths, got}
		}
		if raw.wasLink {
			c.links[fold(path)] = path // an earlier commit of the change may stand beside it
		}
		if raw.mode != modeGone {
			c.write(path, raw.mode, raw.oid, raw.status)
		}
		return nil
	})
}

// Side reads what merges hold that one of their parents, the same by place for
// all, lacks: text as for Changes, of the merges against that parent. A merge may
// bring together what no parent has, without changing a file.
func (c *Check) Side(r io.Reader) error {
	gained, n := map[string]bool{}, int64(0)
	err := c.limits.each(r, func(path string, raw rawLine) error {
		if n++; n > c.limits.TreePaths {
			return &BoundError{"paths in merges", c.limits.TreePaths, n}
		}
		if raw.mode == modeGone {
			return nil
		}
		if raw.mode == modeLink {
			c.written[path] = true
		}
		for folder := range suspects(path) {
			gained[folder] = true
		}
		return nil
	})
	c.sides = append(c.sides, gained)
	return err
}

// join takes the folders that got members seen from both of the first two sides,
// which every merge has, for folders in doubt: what one parent has whole was
// there before.
func (c *Check) join() {
	if len(c.sides) < 2 {
		return
	}
	for folder := range c.sides[0] {
		if c.sides[1][folder] {
			c.folders[folder] |= 0
		}
	}
	c.sides = nil
}

// each hands on the paths of a listing.
func (l Limits) each(r io.Reader, take func(path string, raw rawLine) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		head, err := token(in, 64<<10)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		raw, err := parseRaw(string(head))
		if err != nil {
			return err
		}
		path, err := l.path(in)
		if err != nil {
			return err
		}
		if err := take(path, raw); err != nil {
			return err
		}
	}
}

func (c *Check) write(path string, mode uint32, oid core.ObjectID, status string) {
	c.written[path] = c.written[path] || mode == modeLink
	c.grew = c.grew || mode == modeLink || strings.ContainsAny(status, "AT")
	for i := range rules {
		rule := &rules[i]
		if rule.path != nil && rule.path(path) {
			c.hit(rule, path)
		}
		if rule.wants != nil && rule.wants(path, mode) {
			c.wants[oid] = append(c.wants[oid], want{path, rule})
		}
	}
	for folder := range suspects(path) {
		c.folders[folder] |= 0
	}
}

// Wants lists the blobs whose content the rules must see.
func (c *Check) Wants() []core.ObjectID { return slices.Sorted(maps.Keys(c.wants)) }

// Content hands in one of the blobs of Wants; what is not handed in counts as hit.
func (c *Check) Content(oid core.ObjectID, data []byte) {
	for _, w := range c.wants[oid] {
		if w.rule.content(w.path, data) {
			c.hit(w.rule, w.path)
		}
	}
	delete(c.wants, oid)
}

// NeedsTree tells whether the whole tree matters: only a name that is new can
// form something with names that were there.
func (c *Check) NeedsTree() bool {
	c.join()
	return c.grew || len(c.folders) > 0 || slices.Contains(slices.Collect(maps.Values(c.written)), true)
}

// Tree reads what `git ls-tree -r -z --full-tree` prints of the change's tip.
func (c *Check) Tree(r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	links := c.foldedLinks()
	for n := int64(1); ; n++ {
		head, err := in.ReadSlice('\t')
		if errors.Is(err, io.EOF) && len(head) == 0 {
			return nil
		} else if err != nil {
			return fmt.Errorf("%w: an entry of the tree", ErrMalformed)
		}
		link := bytes.HasPrefix(head, []byte("120000 "))
		path, err := c.limits.path(in)
		if err != nil {
			return err
		}
		if n > c.limits.TreePaths {
			return &BoundError{"paths in the tree", c.limits.TreePaths, n}
		}
		c.seen(path, link)
		c.collide(path, links)
	}
}

// seen books one path of the tree or of the change for the rules about folders
// and names.
func (c *Check) seen(path string, link bool) {
	if link {
		c.links[fold(path)] = path
	}
	if len(c.folders) == 0 {
		return
	}
	for folder, member := range suspects(path) {
		if have, ok := c.folders[folder]; ok {
			c.folders[folder] = have | member
		}
	}
}

// foldedLinks are the links that the change wrote, by folded name.
func (c *Check) foldedLinks() map[string]string {
	links := map[string]string{}
	for path, link := range c.written {
		if link {
			links[fold(path)] = path
		}
	}
	return links
}

// collide looks for a link with the name of path or of one of its folders in
// another spelling.
func (c *Check) collide(path string, links map[string]string) {
	if len(links) == 0 {
		return
	}
	folded := fold(path)
	for end := range ends(path, folded) {
		if link, ok := links[folded[:end[1]]]; ok && link != path[:end[0]] {
			c.hit(ruleCollision, path)
		}
	}
}

// Findings are the hits, sorted, at most Limits.Findings of them.
func (c *Check) Findings() []policy.Finding {
	for _, unseen := range c.wants {
		for _, w := range unseen {
			c.hit(w.rule, w.path)
		}
	}
	for path := range c.changed { // what is gone at the tip was there at some commit
		c.seen(path, c.written[path])
	}
	for path := range c.written {
		c.collide(path, c.links)
	}
	for folder, have := range c.folders {
		if have&memberHead != 0 && have&^memberHead != 0 {
			c.hit(ruleFolder, folder)
		}
	}
	found := slices.SortedFunc(maps.Keys(c.hits), func(a, b policy.Finding) int {
		return strings.Compare(a.Rule+"\x00"+string(a.Path), b.Rule+"\x00"+string(b.Path))
	})
	return found[:min(len(found), c.limits.Findings)]
}

func (c *Check) hit(r *rule, path string) {
	c.hits[policy.Finding{Rule: r.name, Path: core.Untrusted(path)}] = true
}

func (l Limits) path(in *bufio.Reader) (string, error) {
	raw, err := token(in, int(l.PathBytes))
	if errors.Is(err, errTooLong) {
		return "", &BoundError{"bytes in a path", l.PathBytes, l.PathBytes + 1}
	} else if err != nil || len(raw) == 0 {
		return "", fmt.Errorf("%w: a path is missing", ErrMalformed)
	}
	if depth := int64(bytes.Count(raw, []byte("/"))); depth > l.Depth {
		return "", &BoundError{"folders in a path", l.Depth, depth}
	}
	return string(raw), nil
}

var errTooLong = errors.New("token too long")

// token reads to the next NUL, which it drops. io.EOF means that nothing was left.
func token(in *bufio.Reader, limit int) ([]byte, error) {
	var out []byte
	for {
		part, err := in.ReadSlice(0)
		if len(out)+len(part) > limit+1 {
			return nil, errTooLong
		}
		out = append(out, part...)
		switch {
		case err == nil:
			return out[:len(out)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(out) == 0:
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("%w: it ends early", ErrMalformed)
		}
	}
}

// rawLine is what a raw diff line says of a path.
type rawLine struct {
	mode   uint32
	oid    core.ObjectID
	status string
	// What it was in a parent.
	wasLink, wasExecutable bool
}

// parseRaw reads one raw diff line (git-diff-tree(1), "Raw output format" and
// "Diff format for merges"): a colon, a mode and an id per parent, then those
// of the result, then the status.
func parseRaw(line string) (rawLine, error) {
	rest := strings.TrimLeft(line, ":")
	parents := len(line) - len(rest)
	fields := strings.Split(rest, " ")
	if parents == 0 || len(fields) != 2*(parents+1)+1 {
		return rawLine{}, fmt.Errorf("%w: a raw line", ErrMalformed)
	}
	m, err := strconv.ParseUint(fields[parents], 8, 32)
	if err != nil {
		return rawLine{}, fmt.Errorf("%w: a mode", ErrMalformed)
	}
	oid, err := core.ParseObjectID(fields[2*parents+1])
	if err != nil {
		return rawLine{}, fmt.Errorf("%w: an object id", ErrMalformed)
	}
	before := fields[:parents]
	return rawLine{uint32(m), oid, fields[2*parents+2], slices.Contains(before, "120000"), slices.Contains(before, "100755")}, nil
}
