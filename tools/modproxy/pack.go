package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// pack writes the proxy, dependencies first: the sums that a module's go.sum
// holds of its siblings are part of its own content.
func (ws *workspace) pack(o options) error {
	tags, err := ws.tags()
	if err != nil {
		return err
	}
	sums := map[module.Version]sum{}
	for _, m := range ws.modules {
		if o.writeSums {
			if err := ws.writeSums(m, sums); err != nil {
				return err
			}
		}
		for _, v := range m.versions {
			p := packed{module.Version{Path: m.path, Version: v}, m.folder, ""}
			switch {
			case tags[m.folder+"/"+v]:
				p.revision = m.folder + "/" + v
			case o.vcs:
				p.revision = "HEAD"
			}
			if sums[p.Version], err = ws.packOne(p, o.out); err != nil {
				return fmt.Errorf("pack %s: %w", p.Version, err)
			}
		}
		if err := ws.checkSums(m, sums, o.vcs || o.writeSums); err != nil {
			return err
		}
	}
	return nil
}

// packed is one version to serve: from a revision, or from the tree if that is "".
type packed struct {
	module.Version
	folder   string
	revision string
}

func (ws *workspace) packOne(p packed, out string) (sum, error) {
	var archive bytes.Buffer
	mod, err := ws.content(p, &archive)
	if err != nil {
		return sum{}, err
	}
	s, err := sumOf(mod, archive.Bytes())
	if err != nil || out == "" {
		return s, err
	}
	escaped, err := module.EscapePath(p.Path)
	if err != nil {
		return s, err
	}
	dir := filepath.Join(out, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return s, err
	}
	info, err := json.Marshal(struct{ Version string }{p.Version.Version})
	if err != nil {
		return s, err
	}
	for ext, data := range map[string][]byte{".info": info, ".mod": mod, ".zip": archive.Bytes()} {
		if err := replaceFile(filepath.Join(dir, p.Version.Version+ext), data); err != nil {
			return s, err
		}
	}
	return s, replaceFile(filepath.Join(dir, "list"), listed(ws.byPath[p.Path].versions))
}

func listed(versions []string) []byte { return []byte(strings.Join(versions, "\n") + "\n") }

// content writes the module's zip and returns its go.mod.
func (ws *workspace) content(p packed, archive io.Writer) ([]byte, error) {
	if p.revision != "" {
		mod, err := ws.git("show", p.revision+":"+p.folder+"/go.mod")
		if err != nil {
			return nil, err
		}
		return mod, zip.CreateFromVCS(archive, p.Version, ws.root, p.revision, p.folder)
	}
	files, err := ws.treeFiles(p.folder)
	if err != nil {
		return nil, err
	}
	mod, err := os.ReadFile(filepath.Join(ws.root, p.folder, "go.mod"))
	if err != nil {
		return nil, err
	}
	return mod, zip.Create(archive, p.Version, files)
}

// treeFiles are the files of a folder that git tracks or would add, as they
// lie in the tree. What a download would lose without a word is refused.
func (ws *workspace) treeFiles(folder string) ([]zip.File, error) {
	out, err := ws.git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", folder)
	if err != nil {
		return nil, err
	}
	names := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	slices.Sort(names)
	var files []zip.File
	for _, name := range slices.Compact(names) {
		file := treeFile{filepath.Join(ws.root, name), strings.TrimPrefix(name, folder+"/")}
		info, err := file.Lstat()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular():
			return nil, fmt.Errorf("%s is no regular file and would be missing from the download", name)
		}
		files = append(files, file)
	}
	return files, nil
}

// treeFile implements zip.File.
type treeFile struct{ name, inModule string }

func (f treeFile) Path() string                 { return f.inModule }
func (f treeFile) Lstat() (os.FileInfo, error)  { return os.Lstat(f.name) }
func (f treeFile) Open() (io.ReadCloser, error) { return os.Open(f.name) }

// tags is the set of the repository's tags.
func (ws *workspace) tags() (map[string]bool, error) {
	out, err := ws.git("tag", "--list")
	if err != nil {
		return nil, err
	}
	set := map[string]bool{}
	for tag := range strings.Lines(string(out)) {
		set[strings.TrimSpace(tag)] = true
	}
	return set, nil
}

func (ws *workspace) git(args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = ws.root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// replaceFile writes a file so that a reader sees the old or the new one.
func replaceFile(name string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(name), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if err := errors.Join(err, temp.Chmod(0o644), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), name)
}
