package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func recipe() Recipe {
	return Recipe{Flavour: Lean, Arch: "amd64", Ctl: []byte("program"), Version: "v1.2.3"}
}

// context unpacks what the engine would get.
func context(t *testing.T, write func(io.Writer) error) map[string]*tar.Header {
	t.Helper()
	var buf bytes.Buffer
	if err := write(&buf); err != nil {
		t.Fatalf("write the context: %v", err)
	}
	entries := map[string]*tar.Header{}
	for r := tar.NewReader(&buf); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatalf("read the context: %v", err)
		}
		entries[h.Name] = h
	}
}

func mustFingerprint(t *testing.T, r Recipe) string {
	t.Helper()
	fp, err := r.Fingerprint()
	if err != nil {
		t.Fatalf("Fingerprint: %v", err)
	}
	return fp
}

func TestEveryFileOfTheContextCountsInTheFingerprint(t *testing.T) {
	r := recipe()
	files, err := r.shipped()
	if err != nil {
		t.Fatal(err)
	}
	before := r.hash(files)

	listed := map[string]bool{}
	for i := range files {
		listed[files[i].path] = true
		for what, change := range map[string]func(*file){
			"bytes": func(f *file) { f.data = append(slices.Clone(f.data), '\n') },
			"mode":  func(f *file) { f.mode ^= 0o001 },
			"path":  func(f *file) { f.path += ".moved" },
		} {
			changed := slices.Clone(files)
			change(&changed[i])
			if r.hash(changed) == before {
				t.Errorf("another %s of %s leaves the fingerprint as it was", what, files[i].path)
			}
		}
	}
	for name, h := range context(t, r.WriteContext) {
		if h.Typeflag == tar.TypeReg && !listed[name] {
			t.Errorf("the build reads %s, which the fingerprint does not cover", name)
		}
	}
}

func TestFingerprintCoversFlavourBaseArchitectureAndCtl(t *testing.T) {
	seen := map[string]string{}
	for name, change := range map[string]func(*Recipe){
		"nothing":      func(*Recipe) {},
		"base":         func(r *Recipe) { r.Base = "ubuntu:24.04" },
		"architecture": func(r *Recipe) { r.Arch = "arm64" },
		"ctl":          func(r *Recipe) { r.Ctl = []byte("another program") },
	} {
		r := recipe()
		change(&r)
		fp := mustFingerprint(t, r)
		if other, dup := seen[fp]; dup {
			t.Errorf("a change of %s gives the fingerprint of a change of %s", name, other)
		}
		seen[fp] = name
	}
	r := recipe()
	files, err := r.shipped()
	if err != nil {
		t.Fatal(err)
	}
	rich := r
	rich.Flavour = "rich"
	if rich.hash(files) == r.hash(files) {
		t.Error("the flavour does not count in the fingerprint")
	}
}

func TestWhatOneHostAddsLeavesTheFingerprint(t *testing.T) {
	plain, own := recipe(), recipe()
	own.ExtraCA = []Certificate{{name: "host-1.crt", pem: []byte("pem")}}
	own.Version = "v9"
	if mustFingerprint(t, plain) != mustFingerprint(t, own) {
		t.Error("certificates or version of the host changed the fingerprint")
	}
	if plain.ExtraCADigest() != "" || own.ExtraCADigest() == "" {
		t.Errorf("digests of no and of one certificate: %q, %q", plain.ExtraCADigest(), own.ExtraCADigest())
	}
	labels, err := own.Labels()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		LabelChromium:    "false",
		LabelFingerprint: mustFingerprint(t, own),
		LabelExtraCA:     own.ExtraCADigest(),
		LabelFlavour:     "lean",
		LabelVersion:     "v9",
	}
	if !maps.Equal(labels, want) {
		t.Errorf("Labels() = %v, want %v", labels, want)
	}
}

func TestContextIsTheSameBytesEveryTime(t *testing.T) {
	var one, two bytes.Buffer
	if err := errors.Join(recipe().WriteContext(&one), recipe().WriteContext(&two)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("two contexts of one recipe differ")
	}
	for name, h := range context(t, recipe().WriteContext) {
		if h.ModTime.Unix() != 0 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%s carries time, owner or group of this machine", name)
		}
	}
}

func TestContextHoldsWhatItsDockerfileCopies(t *testing.T) {
	copied := regexp.MustCompile(`(?m)^COPY (.+) \S+$`)
	for folder, write := range map[string]func(io.Writer) error{
		"lean":  recipe().WriteContext,
		"trust": recipe().WriteTrustContext,
	} {
		text, err := tree.ReadFile(folder + "/Dockerfile")
		if err != nil {
			t.Fatal(err)
		}
		entries := context(t, write)
		sources := copied.FindAllStringSubmatch(string(text), -1)
		if len(sources) == 0 {
			t.Errorf("%s copies nothing", folder)
		}
		for _, line := range sources {
			for source := range strings.FieldsSeq(line[1]) {
				if entries[source] == nil {
					t.Errorf("%s/Dockerfile copies %s, which the context lacks", folder, source)
				}
			}
		}
	}
}

func TestModesInTheContext(t *testing.T) {
	entries := context(t, recipe().WriteContext)
	for name, want := range map[string]int64{
		"agentbox-ctl":                     0o755,
		"rootfs/etc/sudoers.d/agentbox":    0o440,
		"rootfs/etc/gitconfig":             0o644,
		"rootfs/etc/profile.d/":            0o755,
		"extra-ca/":                        0o755,
		"rootfs/etc/profile.d/agentbox.sh": 0o644,
	} {
		if h := entries[name]; h == nil || h.Mode != want {
			t.Errorf("entry %s = %+v, want mode %o", name, h, want)
		}
	}
}

func TestPackagesAreNames(t *testing.T) {
	packages, err := Packages(Lean)
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]+$`) // Debian policy 5.6.1
	for _, p := range packages {
		if !name.MatchString(p) {
			t.Errorf("%q is no package name", p)
		}
	}
	if !slices.Contains(packages, "git") {
		t.Errorf("Packages(lean) = %v, without git", packages)
	}
	if _, err := Packages("none"); err == nil {
		t.Error("an unknown flavour has packages")
	}
}

func TestCtlIsThereOrSaysSo(t *testing.T) {
	built := fstest.MapFS{"ctl/agentbox-ctl-linux-arm64": {Data: []byte("arm")}}
	if data, err := ctlFrom(built, "arm64"); err != nil || string(data) != "arm" {
		t.Errorf("ctl for arm64 = %q, %v", data, err)
	}
	for _, arch := range []string{"amd64", "riscv64", "../.keep"} {
		if _, err := ctlFrom(built, arch); !errors.Is(err, ErrNoCtl) {
			t.Errorf("ctl for %s: %v, want ErrNoCtl", arch, err)
		}
	}
}
