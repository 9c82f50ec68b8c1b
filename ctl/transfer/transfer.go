// Package transfer is the box's end of copies between box and host: what a
// command line asks for, and the packing of what the host pulls.
//
// Invariants:
//   - Links and what is neither file nor folder are left out, and named.
//   - Nothing here is believed by the host.
package transfer

import (
	"errors"
	"flag"
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

// ErrUsage is wrapped by what Parse refuses.
var ErrUsage = errors.New("usage: agentbox-ctl cp toHost [--no-recursive] [--exclude pattern]... [--no-default-excludes] [-y] <paths...> <dest>")

// Request is a call of the relay.
type Request struct {
	Method string
	Params rules.Params
}

// Parse reads the command line of cp. Paths of the box are made absolute below
// dir. Flags may stand anywhere before "--".
func Parse(args []string, dir string) (Request, error) {
	if len(args) == 0 || args[0] != "toHost" {
		return Request{}, ErrUsage
	}
	var r Request
	r.Method = "cp.toHost"
	flags := flag.NewFlagSet("cp", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	noRecursive := flags.Bool("no-recursive", false, "")
	noDefaults := flags.Bool("no-default-excludes", false, "")
	flags.BoolVar(&r.Params.Yes, "y", false, "")
	flags.BoolVar(&r.Params.Yes, "yes", false, "")
	flags.Func("exclude", "", func(p string) error { r.Params.Exclude = append(r.Params.Exclude, p); return nil })
	var paths []string
	for rest := args[1:]; len(rest) > 0; {
		if err := flags.Parse(rest); err != nil {
			return Request{}, fmt.Errorf("%w: %w", ErrUsage, err)
		}
		ended := len(rest) > flags.NArg() && rest[len(rest)-flags.NArg()-1] == "--"
		if rest = flags.Args(); ended {
			paths = append(paths, rest...)
			break
		}
		if len(rest) > 0 {
			paths, rest = append(paths, rest[0]), rest[1:]
		}
	}
	if len(paths) < 2 {
		return Request{}, fmt.Errorf("%w: it takes a path and a destination", ErrUsage)
	}
	no := false
	if *noRecursive {
		r.Params.Recursive = &no
	}
	if *noDefaults {
		r.Params.DefaultExcludes = &no
	}
	for _, source := range paths[:len(paths)-1] {
		r.Params.Sources = append(r.Params.Sources, absolute(source, dir))
	}
	r.Params.Dest = paths[len(paths)-1]
	return r, nil
}

// absolute keeps the "/." that asks for what a folder holds.
func absolute(name, dir string) string {
	contents := name == "." || strings.HasSuffix(name, "/.")
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	if name = path.Clean(name); contents {
		name += "/."
	}
	return name
}

// Pack writes the archive of a copy, and tells notes what it leaves out.
func Pack(c rules.Copy, out io.Writer, notes func(text string)) error {
	w := rules.NewWriter(out)
	for i, source := range c.Sources {
		if err := packOne(w, c.Choice, filepath.Clean(source), strconv.Itoa(i), notes); err != nil {
			return err
		}
	}
	return w.Close()
}

func packOne(w *rules.Writer, choice rules.Choice, source, name string, notes func(text string)) error {
	return filepath.WalkDir(source, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, at)
		if err != nil {
			return err
		}
		outermost := rel == "."
		switch {
		case outermost && d.IsDir() && choice.Flat:
			return fmt.Errorf("%s is a folder, and folders are not to be copied", source)
		case outermost && !d.IsDir() && !d.Type().IsRegular():
			return fmt.Errorf("%s is neither file nor folder; a link is not followed", source)
		case !outermost && choice.Excludes(rel, d.IsDir()):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return w.Add(rules.Entry{Path: path.Join(name, rel), Folder: true}, nil)
		case !d.Type().IsRegular():
			notes("left out, it is neither file nor folder: " + at)
			return nil
		}
		return packFile(w, at, path.Join(name, rel))
	})
}

func packFile(w *rules.Writer, at, name string) error {
	f, err := os.Open(at) //nolint:gosec // what the box's user may read
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return w.Add(rules.Entry{Path: name, Size: info.Size(), Executable: info.Mode()&0o100 != 0}, f)
}
