package gitgate

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/setup"
)

// CaptureOptions say what of the dirty state goes into a box.
type CaptureOptions struct {
	// Include names untracked files, by path in the work tree, that the user
	// wants in the box although they look secret.
	Include []string
	// Nested are the repositories below this one that the box gets as such, by
	// path in the work tree.
	Nested []string
	// MergeParents carries commits of a merge in progress that no box would
	// see otherwise.
	MergeParents bool
	// FileBytes bounds one untracked file, UntrackedBytes their sum; zero means
	// the defaults of 100 MB and 1 GB.
	FileBytes, UntrackedBytes int64
}

func (o CaptureOptions) orDefaults() CaptureOptions {
	if o.FileBytes == 0 {
		o.FileBytes = defaultFileBytes
	}
	if o.UntrackedBytes == 0 {
		o.UntrackedBytes = defaultUntrackedBytes
	}
	return o
}

const (
	defaultFileBytes      = 100 << 20
	defaultUntrackedBytes = 1 << 30
)

// Carry is the dirty state of a work tree, captured for one box.
type Carry struct {
	// What is carried, for people: numbers of paths.
	Staged, Unstaged, Untracked, Deleted, Conflicts int
	// UntrackedBytes is their size.
	UntrackedBytes int64
	// LeftOut are untracked files that stay on the host, with the reason.
	LeftOut []LeftOut
	// Notes are sentences about what else is not carried.
	Notes []string
	// LFS: the box has to turn the contents of git-lfs files into pointers.
	LFS bool

	h     *Host
	repo  *Repository
	index []byte // input of `update-index -z --index-info`, nil if HEAD's tree is the index
	want  []core.ObjectID
	files []string
	links []string // paths of submodules

	skipWorktree, assumeUnchanged, intentToAdd, deleted [][]byte

	pseudoRefs map[string]string

	listings listings // while it is captured
}

// LeftOut is a path that is not carried.
type LeftOut struct {
	Path   core.Untrusted
	Reason string
}

// Capture reads the dirty state of the repository's work tree. It writes
// nothing there and follows no link.
func (h *Host) Capture(ctx context.Context, r *Repository, opts CaptureOptions) (*Carry, error) {
	c := &Carry{h: h, repo: r, want: []core.ObjectID{r.Head}, pseudoRefs: map[string]string{}}
	if r.from != "" {
		c.LFS = r.usesLFS()
		c.note("the box starts at %q: uncommitted work was not looked at", r.from)
		if err := c.checkComplete(ctx); err != nil {
			return nil, fmt.Errorf("read %q of %s: %w", r.from, r.WorkTree, err)
		}
		return c, nil
	}
	opts = opts.orDefaults()
	defer c.list(ctx)()
	for _, step := range []func(context.Context, CaptureOptions) error{c.readIndex, c.readWorkTree, c.readLFS, c.readUntracked, c.readOperation} {
		if err := step(ctx, opts); err != nil {
			return nil, fmt.Errorf("read the uncommitted changes of %s: %w", r.WorkTree, err)
		}
	}
	return c, nil
}

func (c *Carry) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := c.h.theirs(c.repo, args...)
	cmd.deadline = capture
	return c.h.run.run(ctx, cmd)
}

// listings are what git lists of the work tree, as soon as it has.
type listings struct{ index, changed, untracked func() ([]byte, error) }

// list starts the listings, side by side. The caller ends by calling stop.
func (c *Carry) list(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	begin := func(args ...string) func() ([]byte, error) {
		listing := sync.OnceValues(func() ([]byte, error) { return c.run(ctx, args...) })
		go listing() //nolint:errcheck // who asks for it hears of it
		return listing
	}
	c.listings = listings{
		index:     begin("ls-files", "-s", "-v", "-z"),
		changed:   begin("diff-files", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=all"),
		untracked: begin("ls-files", "-o", "-z", "--exclude-standard"),
	}
	all := c.listings
	return func() {
		cancel()
		for _, wait := range []func() ([]byte, error){all.index, all.changed, all.untracked} {
			_, _ = wait()
		}
		c.listings = listings{}
	}
}

func (c *Carry) tree() workTree { return workTree{c.repo.WorkTree, c.repo.owner.uid} }

const modeGitlink = "160000"

// entry is one line of the index or of a tree.
type entry struct{ mode, oid, path string }

// readIndex takes the index over, where it differs from HEAD's tree.
func (c *Carry) readIndex(ctx context.Context, _ CaptureOptions) error {
	out, head, err := c.listIndex(ctx)
	if err != nil {
		return err
	}
	intent, err := c.intents(ctx, out, head)
	if err != nil {
		return err
	}
	committed := map[string]bool{}
	for _, e := range head {
		committed[e.oid] = true
	}
	var index bytes.Buffer
	var blobs, needed []core.ObjectID
	same, conflicts, listed := 0, map[string]bool{}, map[string]bool{}
	for line := range items(out) {
		flag, rest, _ := strings.Cut(line, " ")
		e, stage, err := parseIndex(rest)
		if err != nil {
			return err
		}
		c.noteFlags(flag, e.path)
		if stage == "0" && e.mode != modeGitlink && strings.ToUpper(flag) != "S" {
			needed = append(needed, core.ObjectID(e.oid))
		}
		if intent[e.path] {
			c.intentToAdd = append(c.intentToAdd, []byte(e.path))
			continue
		}
		index.WriteString(rest + "\x00")
		listed[e.path] = true
		switch have, ok := head[e.path]; {
		case stage != "0":
			conflicts[e.path] = true
		case ok && have == e:
			same++
		default:
			c.Staged++
		}
		switch {
		case e.mode == modeGitlink:
			c.links = append(c.links, e.path)
		case !committed[e.oid]:
			blobs = append(blobs, core.ObjectID(e.oid))
		}
	}
	if err := c.checkBlobs(ctx, needed); err != nil {
		return err
	}
	c.Conflicts = len(conflicts)
	if c.Staged == 0 && c.Conflicts == 0 && same == len(head) {
		return nil
	}
	c.Staged += absent(head, listed)
	c.index = index.Bytes()
	// Of a partial clone some may be missing; git in the box says so.
	blobs, err = c.h.existing(ctx, c.h.theirs(c.repo), blobs)
	c.want = append(c.want, blobs...)
	return err
}

// absent counts the entries of HEAD that the index does not list: removed ones.
func absent(head map[string]entry, listed map[string]bool) (n int) {
	for path := range head {
		if !listed[path] {
			n++
		}
	}
	return n
}

// listIndex lists the index, with flags, and HEAD's tree.
func (c *Carry) listIndex(ctx context.Context) (index []byte, head map[string]entry, err error) {
	if head, err = c.headTree(ctx); err != nil {
		return nil, nil, err
	}
	index, err = c.listings.index()
	return index, head, err
}

func (c *Carry) headTree(ctx context.Context) (map[string]entry, error) {
	out, err := c.run(ctx, "ls-tree", "-r", "-z", "--full-tree", string(c.repo.Head))
	if c.repo.Partial && exitCode(err) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrIncomplete, err)
	} else if err != nil {
		return nil, err
	}
	tree := map[string]entry{}
	for line := range items(out) {
		meta, path, _ := strings.Cut(line, "\t")
		if f := strings.Fields(meta); len(f) == 3 {
			tree[path] = entry{f[0], f[2], path}
		}
	}
	return tree, nil
}

// The ids of the blob without content, which is what an entry that is only
// intended to be added names.
var emptyBlobs = map[string]bool{
	"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391":                         true,
	"473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813": true,
}

// intents finds the entries of `git add -N`. git lists them like staged empty
// files, but does not take them for a difference from HEAD.
func (c *Carry) intents(ctx context.Context, index []byte, head map[string]entry) (map[string]bool, error) {
	intents := map[string]bool{}
	for line := range items(index) {
		_, rest, _ := strings.Cut(line, " ")
		if e, stage, err := parseIndex(rest); err == nil && stage == "0" && emptyBlobs[e.oid] && head[e.path] != e {
			intents[e.path] = true
		}
	}
	if len(intents) == 0 {
		return nil, nil
	}
	out, err := c.run(ctx, "diff-index", "--cached", "--ita-invisible-in-index", "-z", "--raw", "--no-renames", "--no-abbrev", string(c.repo.Head), "--")
	if err != nil {
		return nil, err
	}
	return intents, rawItems(out, func(status byte, path string) {
		if status != 'D' {
			delete(intents, path)
		}
	})
}

// noteFlags reads the letter of `ls-files -v`: S for skip-worktree, lower case
// for assume-unchanged.
func (c *Carry) noteFlags(flag, path string) {
	if strings.ToUpper(flag) == "S" {
		c.skipWorktree = append(c.skipWorktree, []byte(path))
	}
	if strings.ToLower(flag) == flag {
		c.assumeUnchanged = append(c.assumeUnchanged, []byte(path))
	}
}

// readWorkTree lists tracked files whose bytes are not the index's. git looks
// away from files under the two flags, so those are taken as they are.
func (c *Carry) readWorkTree(context.Context, CaptureOptions) error {
	out, err := c.listings.changed()
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	err = rawItems(out, func(status byte, path string) {
		if listed[path] {
			return // an unmerged path has two lines
		}
		listed[path] = true
		if status == 'D' {
			c.deleted = append(c.deleted, []byte(path))
		} else {
			c.files = append(c.files, path)
		}
	})
	if err != nil {
		return err
	}
	for _, path := range c.links { // git was told to look away from them
		if _, err := os.Lstat(filepath.Join(c.repo.WorkTree, path)); errors.Is(err, os.ErrNotExist) {
			c.deleted = append(c.deleted, []byte(path))
		}
	}
	c.Deleted, c.Unstaged = len(c.deleted), len(c.files)
	skipped := map[string]bool{}
	for _, p := range c.skipWorktree {
		skipped[string(p)] = true
	}
	for _, p := range append(c.skipWorktree, c.assumeUnchanged...) {
		path := string(p)
		if listed[path] {
			continue
		}
		listed[path] = true
		f, err := c.tree().open(path)
		f.close()
		switch {
		case err == nil:
			c.files = append(c.files, path)
		case errors.Is(err, os.ErrNotExist) && !skipped[path]:
			c.deleted = append(c.deleted, p)
		case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errNotCarried):
			return err
		}
	}
	return nil
}

// readUntracked lists the files that git neither tracks nor ignores, less what
// looks secret, is too large, or is a repository of its own.
func (c *Carry) readUntracked(_ context.Context, opts CaptureOptions) error {
	out, err := c.listings.untracked()
	if err != nil {
		return err
	}
	return c.untracked(slices.Collect(items(out)), opts)
}

// untracked takes the listed files; one that ends in a slash is a repository.
func (c *Carry) untracked(listed []string, opts CaptureOptions) error {
	include := map[string]bool{}
	for _, p := range opts.Include {
		include[path.Clean(p)] = true
	}
	for _, file := range listed {
		if repo, ok := strings.CutSuffix(file, "/"); ok && slices.Contains(opts.Nested, repo) {
			continue
		}
		wanted := include[file]
		delete(include, file)
		reason, size, err := c.judge(file, wanted, opts)
		if errors.Is(err, os.ErrNotExist) {
			continue // gone since
		} else if err != nil {
			return err
		}
		if reason != "" {
			c.LeftOut = append(c.LeftOut, LeftOut{core.Untrusted(file), reason})
			continue
		}
		c.files = append(c.files, file)
		c.Untracked++
		c.UntrackedBytes += size
	}
	for _, file := range slices.Sorted(maps.Keys(include)) {
		c.note("not carried: %s, which is no untracked file (git ignores it, tracks it, or it is not there)", core.Untrusted(file).Quote())
	}
	return nil
}

// secretScan is how much of a file is searched for credentials.
const secretScan = 256 << 10

// judge says why an untracked file stays out of the box, "" if it does not.
func (c *Carry) judge(path string, included bool, opts CaptureOptions) (reason string, size int64, err error) {
	if strings.HasSuffix(path, "/") {
		return "a git repository of its own", 0, nil
	}
	if !included && core.LooksSecret(path) {
		return "its name looks like a secret's", 0, nil
	}
	f, err := c.tree().open(path)
	if errors.Is(err, errNotCarried) || errors.Is(err, os.ErrPermission) {
		return "it can't be read as a plain file", 0, nil
	} else if err != nil {
		return "", 0, err
	}
	defer f.close()
	switch {
	case f.File == nil:
		return "", 0, nil
	case f.size > opts.FileBytes:
		return fmt.Sprintf("larger than %d MB", opts.FileBytes>>20), 0, nil
	case c.UntrackedBytes+f.size > opts.UntrackedBytes:
		return fmt.Sprintf("untracked files together exceed %d MB", opts.UntrackedBytes>>20), 0, nil
	case included:
		return "", f.size, nil
	}
	start, err := io.ReadAll(io.LimitReader(f, secretScan))
	if err != nil {
		return "", 0, err
	}
	if core.HoldsSecret(start) {
		return "it holds what looks like a credential", 0, nil
	}
	return "", f.size, nil
}

// WriteSections writes the repository's sections of the setup stream.
func (c *Carry) WriteSections(ctx context.Context, w io.Writer) error {
	for _, fill := range []func(io.Writer) error{
		func(w io.Writer) error { return c.writePack(ctx, w) },
		func(w io.Writer) error { _, err := w.Write(c.index); return err },
		c.writeFiles,
	} {
		if err := setup.WriteSection(w, fill); err != nil {
			return fmt.Errorf("send the workspace of %s: %w", c.repo.WorkTree, err)
		}
	}
	return nil
}

// writePack sends the objects that the box needs and its seed lacks.
func (c *Carry) writePack(ctx context.Context, w io.Writer) error {
	refs, err := c.h.storedRefs(ctx, c.h.home.Seed(c.repo.Key))
	if err != nil {
		return err
	}
	var tips []core.ObjectID
	for _, r := range refs {
		tips = append(tips, r.oid)
	}
	if holds(tips, c.want) {
		return nil
	}
	p := packing{from: c.h.theirs(c.repo), want: c.want, partial: c.repo.Partial}
	if p.exclude, err = c.h.existing(ctx, p.from, tips); err != nil {
		return err
	}
	return c.h.packTo(ctx, p, func(pack io.Reader) error {
		full, err := skipEmptyPack(pack)
		if err != nil || full == nil {
			return err
		}
		_, err = io.Copy(w, full)
		return err
	})
}

// writeFiles sends the bytes of the listed files as a tar.
func (c *Carry) writeFiles(w io.Writer) error {
	out := tar.NewWriter(w)
	for _, path := range c.files {
		if err := c.writeFile(out, path); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errNotCarried) {
			return err
		}
	}
	return out.Close()
}

func (c *Carry) writeFile(out *tar.Writer, path string) error {
	f, err := c.tree().open(path)
	if err != nil {
		return err
	}
	defer f.close()
	head := &tar.Header{Name: path, Mode: 0o644, Format: tar.FormatPAX}
	switch {
	case f.File == nil:
		head.Typeflag, head.Linkname = tar.TypeSymlink, f.link
	default:
		head.Typeflag, head.Size = tar.TypeReg, f.size
		if f.exec {
			head.Mode = 0o755
		}
	}
	if err := out.WriteHeader(head); err != nil {
		return err
	}
	if f.File == nil {
		return nil
	}
	if _, err := io.CopyN(out, f, f.size); err != nil {
		return fmt.Errorf("%s changed while it was read: %w", path, err)
	}
	return nil
}
