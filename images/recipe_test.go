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

func recipe(flavour Flavour) Recipe {
	return Recipe{Flavour: flavour, Arch: "amd64", Ctl: []byte("program"), Version: "v1.2.3"}
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

// builds are the contexts of all builds that make the box image of r, by the
// folder that each comes from.
func builds(t *testing.T, r Recipe) map[string]func(io.Writer) error {
	t.Helper()
	contents, err := r.Contents()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]func(io.Writer) error{"box": r.WriteContext}
	for _, c := range contents {
		all[string(c.Flavour)] = c.WriteContext
	}
	return all
}

func TestEveryFileOfTheContextsCountsInTheFingerprint(t *testing.T) {
	for _, flavour := range Flavours {
		r := recipe(flavour)
		files, err := r.shipped()
		if err != nil {
			t.Fatal(err)
		}
		before := mustFingerprint(t, r)

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
				if r.hash(flavour, changed) == before {
					t.Errorf("another %s of %s leaves the fingerprint of %s as it was", what, files[i].path, flavour)
				}
			}
		}
		for folder, write := range builds(t, r) {
			for name, h := range context(t, write) {
				if name = folder + "/" + name; h.Typeflag == tar.TypeReg && !listed[name] {
					t.Errorf("the build of %s reads %s, which the fingerprint does not cover", flavour, name)
				}
			}
		}
	}
}

func TestFullStandsOnTheContentOfLean(t *testing.T) {
	lean, err := recipe(Lean).Contents()
	if err != nil || len(lean) != 1 {
		t.Fatalf("contents of lean: %v, %d", err, len(lean))
	}
	r := recipe(Full)
	full, err := r.Contents()
	if err != nil || len(full) != 2 {
		t.Fatalf("contents of full: %v, %d", err, len(full))
	}
	if !maps.Equal(full[0].Labels, lean[0].Labels) {
		t.Error("the content of lean is another below full")
	}
	if full[1].Labels[LabelContent] == full[0].Labels[LabelContent] {
		t.Error("both contents have one label")
	}
	r.Ctl = []byte("another program")
	again, err := r.Contents()
	if err != nil || !maps.Equal(again[1].Labels, full[1].Labels) {
		t.Errorf("another agentbox-ctl asks for another content: %v", err)
	}
	r.Base = "ubuntu:24.04"
	if again, err = r.Contents(); err != nil || maps.Equal(again[0].Labels, full[0].Labels) {
		t.Errorf("another base asks for no other content: %v", err)
	}
	r.Flavour = "rich"
	if _, err := r.Contents(); err == nil {
		t.Error("an unknown flavour has contents")
	}
}

func TestContentBelowCountsInTheContentAbove(t *testing.T) {
	r := recipe(Full)
	contents, err := r.Contents()
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(within("lean", contents[0].files), within("full", contents[1].files))
	if r.hash(Full, all) != contents[1].Labels[LabelContent] {
		t.Error("the label of full's content is not over the files of both")
	}
}

func TestFingerprintCoversFlavourBaseArchitectureAndCtl(t *testing.T) {
	seen := map[string]string{}
	for name, change := range map[string]func(*Recipe){
		"nothing":      func(*Recipe) {},
		"base":         func(r *Recipe) { r.Base = "ubuntu:24.04" },
		"architecture": func(r *Recipe) { r.Arch = "arm64" },
		"ctl":          func(r *Recipe) { r.Ctl = []byte("another program") },
		"flavour":      func(r *Recipe) { r.Flavour = Full },
	} {
		r := recipe(Lean)
		change(&r)
		fp := mustFingerprint(t, r)
		if other, dup := seen[fp]; dup {
			t.Errorf("a change of %s gives the fingerprint of a change of %s", name, other)
		}
		seen[fp] = name
	}
	r := recipe(Lean)
	files, err := r.shipped()
	if err != nil {
		t.Fatal(err)
	}
	if r.hash(Full, files) == r.hash(Lean, files) {
		t.Error("the flavour does not count in the fingerprint")
	}
}

func TestWhatOneHostAddsLeavesTheFingerprint(t *testing.T) {
	plain, own := recipe(Lean), recipe(Lean)
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
		LabelCtl:         "1310ca2c8932dbd118668bd97442558a3e1f546b5e15c69699dfbd6024f548d8",
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

func TestContextsAreTheSameBytesEveryTime(t *testing.T) {
	again := builds(t, recipe(Full))
	for folder, write := range builds(t, recipe(Full)) {
		var one, two bytes.Buffer
		if err := errors.Join(write(&one), again[folder](&two)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one.Bytes(), two.Bytes()) {
			t.Errorf("two contexts of %s differ", folder)
		}
		for name, h := range context(t, write) {
			if h.ModTime.Unix() != 0 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
				t.Errorf("%s/%s carries time, owner or group of this machine", folder, name)
			}
		}
	}
}

func TestContextsHoldWhatTheirDockerfilesCopy(t *testing.T) {
	copied := regexp.MustCompile(`(?m)^COPY (?:--from=\S+ )?(.+) \S+$`)
	contexts := builds(t, recipe(Full))
	contexts["trust"] = recipe(Lean).WriteTrustContext
	for folder, write := range contexts {
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
			if strings.Contains(line[0], "--from=") {
				continue
			}
			for source := range strings.FieldsSeq(line[1]) {
				if entries[source] == nil {
					t.Errorf("%s/Dockerfile copies %s, which the context lacks", folder, source)
				}
			}
		}
	}
}

func TestModesInTheContext(t *testing.T) {
	entries := context(t, recipe(Lean).WriteContext)
	for name, h := range context(t, builds(t, recipe(Lean))["lean"]) {
		entries[name] = h
	}
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
	name := regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]+$`) // Debian policy 5.6.1
	want := map[Flavour][]string{Lean: {"git", "tmux"}, Full: {"build-essential", "bubblewrap"}}
	seen := map[string]Flavour{}
	for _, flavour := range Flavours {
		packages, err := Packages(flavour)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range packages {
			if !name.MatchString(p) {
				t.Errorf("%q is no package name", p)
			}
			if other, twice := seen[p]; twice {
				t.Errorf("%s is listed for %s and for %s", p, other, flavour)
			}
			seen[p] = flavour
		}
		for _, p := range want[flavour] {
			if seen[p] != flavour {
				t.Errorf("Packages(%s) = %v, without %s", flavour, packages, p)
			}
		}
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
