package transfer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	rules "github.com/madarco/agentbox/core/transfer"
)

var errInTheWay = errors.New("a link, or something of another kind, is in the way")

// plan is a copy in two steps: all that can fail for want of room is written
// first, under names of ours in the folders where it is going to lie, and then
// renamed. Each folder is held open, and no name that is used has a slash, so
// that a link that appears meanwhile is never followed.
type plan struct {
	spool *os.Root
	key   string
	open  []*os.Root
	made  []step // folders that did not exist
	steps []step
}

type step struct {
	dir        *os.Root
	temp, name string
}

// place writes what was pulled to its targets.
func place(spool *os.Root, req request) (err error) {
	if real, err := filepath.EvalSymlinks(req.Base); err != nil || real != req.Base {
		return fmt.Errorf("the folder %s has moved", req.Base)
	}
	base, err := os.OpenRoot(req.Base)
	if err != nil {
		return err
	}
	p := &plan{spool: spool, key: req.key(), open: []*os.Root{base}}
	defer func() { err = errors.Join(err, p.end(err != nil)) }()
	for i, target := range req.Targets {
		rel, ok := rules.Within(req.Base, target)
		if !ok {
			return fmt.Errorf("%s does not lie in %s", target, req.Base)
		}
		if err := p.target(base, rel, strconv.Itoa(i)); err != nil {
			return fmt.Errorf("write %s: %w", target, err)
		}
	}
	for _, s := range p.steps {
		if err := s.dir.Rename(s.temp, s.name); err != nil {
			return err
		}
	}
	return nil
}

// target plans for the source with this name in the spool.
func (p *plan) target(dir *os.Root, rel, source string) error {
	if rel == "." {
		return p.merge(dir, source)
	}
	names := strings.Split(filepath.ToSlash(rel), "/")
	for _, name := range names[:len(names)-1] {
		err := dir.Mkdir(name, 0o755)
		if err == nil {
			p.made = append(p.made, step{dir: dir, name: name})
		} else if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if dir, err = p.enter(dir, name); err != nil {
			return err
		}
	}
	return p.add(dir, names[len(names)-1], source)
}

// enter opens a folder of a folder. os.Root follows a link that stays inside, so
// that what was opened has to be what a look without following saw.
func (p *plan) enter(dir *os.Root, name string) (*os.Root, error) {
	before, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, fmt.Errorf("%s: %w", name, errInTheWay)
	}
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	p.open = append(p.open, sub)
	if opened, err := sub.Stat("."); err != nil || !os.SameFile(before, opened) {
		return nil, fmt.Errorf("%s: %w", name, errInTheWay)
	}
	return sub, nil
}

// add plans for one file or folder of the spool.
func (p *plan) add(dir *os.Root, name, source string) error {
	from, err := p.spool.Lstat(source)
	if err != nil {
		return err
	}
	there, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case from.IsDir() && there.IsDir():
		sub, err := p.enter(dir, name)
		if err != nil {
			return err
		}
		return p.merge(sub, source)
	case from.IsDir() || !there.Mode().IsRegular():
		return fmt.Errorf("%s: %w", name, errInTheWay)
	}
	s := step{dir: dir, temp: fmt.Sprintf(".agentbox-copy-%s-%d", p.key, len(p.steps)), name: name}
	if err := dir.RemoveAll(s.temp); err != nil { // of a relay that was cut
		return err
	}
	p.steps = append(p.steps, s)
	return p.write(dir, s.temp, source, from)
}

// merge plans for what a folder of the spool holds.
func (p *plan) merge(dir *os.Root, source string) error {
	return p.each(source, func(name string, _ fs.FileInfo) error { return p.add(dir, name, path.Join(source, name)) })
}

// each calls do for what a folder of the spool holds.
func (p *plan) each(source string, do func(name string, info fs.FileInfo) error) error {
	entries, err := fs.ReadDir(p.spool.FS(), source)
	if err != nil {
		return fmt.Errorf("a folder is expected: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil {
			err = do(e.Name(), info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write copies a file or a folder of the spool to a name that nothing has.
func (p *plan) write(dir *os.Root, name, source string, info fs.FileInfo) error {
	if info.IsDir() {
		return p.folder(dir, name, source)
	}
	perm := fs.FileMode(0o644)
	if info.Mode()&0o100 != 0 {
		perm = 0o755
	}
	in, err := p.spool.Open(source)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := dir.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// folder makes a new folder; it is open only while it is filled.
func (p *plan) folder(dir *os.Root, name, source string) error {
	if err := dir.Mkdir(name, 0o755); err != nil {
		return err
	}
	sub, err := p.enter(dir, name)
	if err != nil {
		return err
	}
	p.open = p.open[:len(p.open)-1]
	defer sub.Close() //nolint:errcheck // only a handle
	return p.each(source, func(name string, info fs.FileInfo) error { return p.write(sub, name, path.Join(source, name), info) })
}

// end removes what is left under names of ours and, of a copy that failed, the
// folders that were made for it.
func (p *plan) end(undo bool) error {
	var err error
	for _, s := range p.steps {
		if undo {
			err = errors.Join(err, s.dir.RemoveAll(s.temp))
		}
	}
	for i := len(p.made) - 1; undo && i >= 0; i-- {
		_ = p.made[i].dir.Remove(p.made[i].name) // stays where it is not empty
	}
	for _, dir := range p.open {
		_ = dir.Close()
	}
	return err
}
