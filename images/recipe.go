package images

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:embed all:box all:full all:lean all:trust
var tree embed.FS

// Flavour names a variant of the box image; it is the name of a folder here.
type Flavour string

const (
	// Lean has git, tmux, the usual shell tools and agentbox-ctl, and no agent.
	Lean Flavour = "lean"
	// Full is lean with compilers, Node.js, Python and the coding agents.
	Full Flavour = "full"
)

// Flavours are all flavours, from the leanest on: each holds what those before
// it hold.
var Flavours = []Flavour{Lean, Full}

// DefaultBase is the image that a build starts from where a registry answers.
const DefaultBase = "debian:bookworm-slim"

// Labels of every image that a Recipe builds.
const (
	// LabelFingerprint holds Recipe.Fingerprint.
	LabelFingerprint = "agentbox.image.fingerprint"
	// LabelExtraCA holds Recipe.ExtraCADigest; no label means no certificates.
	LabelExtraCA = "agentbox.image.extra-ca"
	// LabelContent identifies what is below agentbox-ctl: the flavour's content.
	LabelContent = "agentbox.image.content"
	// LabelCtl is the SHA-256 of the agentbox-ctl in the image, in hex.
	LabelCtl = "agentbox.image.ctl"
	// LabelFlavour holds the flavour.
	LabelFlavour = "agentbox.image.flavour"
	// LabelVersion holds the version of the agentbox that built the image.
	LabelVersion = "agentbox.image.version"
	// LabelChromium is "true" where the image holds Chromium, whose sandbox
	// needs a wider system call profile.
	LabelChromium = "agentbox.image.chromium"
)

// Recipe is everything that the build of a box image depends on.
type Recipe struct {
	Flavour Flavour
	// Base is the reference of the image to start from, DefaultBase if empty.
	Base string
	// Arch is the engine's architecture as Go spells it.
	Arch string
	// Ctl is the agentbox-ctl program for Arch.
	Ctl []byte
	// ExtraCA are certificates that this host trusts beyond the public ones.
	// They are no part of the fingerprint: an image that was built elsewhere
	// has none.
	ExtraCA []Certificate
	// Version of agentbox, for the label only.
	Version string
}

// file is one entry of a build context.
type file struct {
	path string
	mode int64
	data []byte
}

// fingerprintForm changes when the way of building changes for other reasons
// than the files.
const fingerprintForm = "agentbox-image 2"

// Content is one of the images that a box image stands on: all of a flavour
// but agentbox-ctl, so that another agentbox-ctl costs one copy.
type Content struct {
	Flavour Flavour
	// Labels are what the image must carry.
	Labels map[string]string

	files []file
	extra []Certificate
}

// WriteContext writes the build context of this content as a tar. Its
// Dockerfile takes the content before it, or the base, as the build argument
// BASE_IMAGE, and the address of npm's registry as NPM_CONFIG_REGISTRY.
func (c Content) WriteContext(w io.Writer) error { return writeContext(w, c.files, c.extra) }

// Contents are what the box image stands on, from the base up.
func (r Recipe) Contents() ([]Content, error) {
	end := slices.Index(Flavours, r.Flavour)
	if end < 0 {
		return nil, fmt.Errorf("image flavour %q: %w", r.Flavour, fs.ErrNotExist)
	}
	var (
		below []file
		all   []Content
	)
	for i, flavour := range Flavours[:end+1] {
		files, err := folder(tree, string(flavour))
		if err != nil {
			return nil, fmt.Errorf("read the image flavour %q: %w", flavour, err)
		}
		below = append(below, within(string(flavour), files)...)
		c := Content{Flavour: flavour, files: files}
		c.Labels = map[string]string{LabelContent: r.hash(flavour, below), LabelExtraCA: r.ExtraCADigest()}
		if i == 0 {
			c.extra = r.ExtraCA // the later ones have them from the first
		}
		all = append(all, c)
	}
	return all, nil
}

// within puts files into a folder.
func within(dir string, files []file) []file {
	moved := slices.Clone(files)
	for i := range moved {
		moved[i].path = path.Join(dir, moved[i].path)
	}
	return moved
}

// top lists the files of the box image's own build.
func (r Recipe) top() ([]file, error) {
	files, err := folder(tree, "box")
	if err != nil {
		return nil, fmt.Errorf("read the box image: %w", err)
	}
	return append(files, file{path: "agentbox-ctl", mode: 0o755, data: r.Ctl}), nil
}

// shipped lists the files of all builds that are the same on every host.
func (r Recipe) shipped() ([]file, error) {
	contents, err := r.Contents()
	if err != nil {
		return nil, err
	}
	var files []file
	for _, c := range contents {
		files = append(files, within(string(c.Flavour), c.files)...)
	}
	top, err := r.top()
	return append(files, within("box", top)...), err
}

func byPath(a, b file) int { return cmp.Compare(a.path, b.path) }

// folder reads all files below dir; paths are relative to it. An embedded file
// system keeps no modes, so the place of a file decides: see mode.
func folder(fsys fs.FS, dir string) ([]file, error) {
	sub, err := fs.Sub(fsys, dir)
	if err != nil {
		return nil, err
	}
	var files []file
	err = fs.WalkDir(sub, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(sub, name)
		files = append(files, file{path: name, mode: mode(name), data: data})
		return err
	})
	return files, err
}

// mode is what a file gets in the image. sudo refuses rules that others may write.
func mode(name string) int64 {
	switch {
	case strings.HasPrefix(name, "rootfs/etc/sudoers.d/"):
		return 0o440
	case strings.HasPrefix(name, "rootfs/usr/local/bin/"):
		return 0o755
	}
	return 0o644
}

// BaseOrDefault is the reference of the image that the build starts from.
func (r Recipe) BaseOrDefault() string { return cmp.Or(r.Base, DefaultBase) }

// Fingerprint is a SHA-256 in hex over everything that every host's build of
// this recipe reads. Two images with one fingerprint are interchangeable.
func (r Recipe) Fingerprint() (string, error) {
	files, err := r.shipped()
	if err != nil {
		return "", err
	}
	return r.hash(r.Flavour, files), nil
}

func (r Recipe) hash(flavour Flavour, files []file) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\nflavour %q\nbase %q\narch %q\n", fingerprintForm, flavour, r.BaseOrDefault(), r.Arch)
	for _, f := range slices.SortedFunc(slices.Values(files), byPath) {
		fmt.Fprintf(h, "file %q %o %x\n", f.path, f.mode, sha256.Sum256(f.data))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// CtlDigest is the SHA-256 of Ctl in hex.
func (r Recipe) CtlDigest() string {
	sum := sha256.Sum256(r.Ctl)
	return hex.EncodeToString(sum[:])
}

// ExtraCADigest identifies the set of extra certificates, "" if there are none.
func (r Recipe) ExtraCADigest() string {
	if len(r.ExtraCA) == 0 {
		return ""
	}
	h := sha256.New()
	for _, c := range r.ExtraCA {
		fmt.Fprintln(h, c.name)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Labels are what the built image must carry.
func (r Recipe) Labels() (map[string]string, error) {
	fingerprint, err := r.Fingerprint()
	if err != nil {
		return nil, err
	}
	var packages []string
	for _, flavour := range Flavours[:slices.Index(Flavours, r.Flavour)+1] {
		added, err := Packages(flavour)
		if err != nil {
			return nil, err
		}
		packages = append(packages, added...)
	}
	return map[string]string{
		LabelCtl:         r.CtlDigest(),
		LabelChromium:    strconv.FormatBool(slices.Contains(packages, "chromium")),
		LabelFingerprint: fingerprint,
		LabelExtraCA:     r.ExtraCADigest(),
		LabelFlavour:     string(r.Flavour),
		LabelVersion:     r.Version,
	}, nil
}

// WriteContext writes a build context that makes the box image of the flavour's
// content, which is the build argument BASE_IMAGE.
func (r Recipe) WriteContext(w io.Writer) error {
	files, err := r.top()
	if err != nil {
		return err
	}
	return writeContext(w, files, nil)
}

// WriteTrustContext writes a build context that adds only ExtraCA to the image
// in the build argument BASE_IMAGE.
func (r Recipe) WriteTrustContext(w io.Writer) error {
	files, err := folder(tree, "trust")
	if err != nil {
		return fmt.Errorf("read the image additions: %w", err)
	}
	return writeContext(w, files, r.ExtraCA)
}

// extraCADir is named in the Dockerfiles, which copy it even when it is empty.
const extraCADir = "extra-ca"

func writeContext(w io.Writer, files []file, extra []Certificate) error {
	dirs := map[string]bool{extraCADir: true}
	files = slices.Clone(files)
	for _, c := range extra {
		files = append(files, file{path: path.Join(extraCADir, c.name), mode: 0o644, data: c.pem})
	}
	slices.SortFunc(files, byPath)
	for _, f := range files {
		for dir := path.Dir(f.path); dir != "."; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	out := tar.NewWriter(w)
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
			return fmt.Errorf("write the build context: %w", err)
		}
	}
	for _, f := range files {
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.data))}); err != nil {
			return fmt.Errorf("write the build context: %w", err)
		}
		if _, err := out.Write(f.data); err != nil {
			return fmt.Errorf("write the build context: %w", err)
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("write the build context: %w", err)
	}
	return nil
}

// Packages are the distribution packages that a flavour adds to those of the
// flavours before it.
func Packages(f Flavour) ([]string, error) {
	text, err := fs.ReadFile(tree, path.Join(string(f), "packages"))
	if err != nil {
		return nil, fmt.Errorf("read the packages of image flavour %q: %w", f, err)
	}
	return strings.Fields(string(text)), nil
}
