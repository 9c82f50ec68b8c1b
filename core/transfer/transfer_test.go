package transfer

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for body, want := range map[string]Copy{
		`{"sources":["a","-rf"],"dest":"out/"}`:                                             {Sources: []string{"a", "-rf"}, Dest: "out/"},
		`{"sources":["a"],"dest":"b","recursive":false,"defaultExcludes":false,"yes":true}`: {Sources: []string{"a"}, Dest: "b", Choice: Choice{Flat: true, Heavy: true}},
		`{"boxPath":"/workspace/a","hostPath":"b"}`:                                         {Sources: []string{"/workspace/a"}, Dest: "b"},
		`{"sources":["a"],"dest":"b","exclude":["*.log"],"boxPath":"x","hostPath":"y"}`:     {Sources: []string{"a"}, Dest: "b", Choice: Choice{Exclude: []string{"*.log"}}},
	} {
		if got, err := Parse([]byte(body), true); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
	if got, err := Parse([]byte(`{"boxPath":"/workspace/a","hostPath":"b"}`), false); err != nil || got.Sources[0] != "b" || got.Dest != "/workspace/a" {
		t.Errorf("from the host: %+v, %v", got, err)
	}
	for _, body := range []string{
		``, `{}`, `{"sources":["a"]}`, `{"dest":"a"}`, `{"sources":"a","dest":"b"}`, `{"sources":["a"],"dest":"b","exclude":"x"}`,
		`{"sources":["a"],"dest":"b","exclude":[" "]}`, `{"sources":["a"],"dest":"b","exclude":["[a"]}`, `{"sources":[""],"dest":"b"}`,
		`{"sources":["a\u0000b"],"dest":"b"}`, `{"sources":["a"],"dest":"b","force":true}`, `{"boxPath":"a"}`, `{"sources":["a"],"dest":"b","recursive":1}`,
		`{"sources":["a"],"dest":"` + strings.Repeat("x", maxPath+1) + `"}`, `{"sources":[` + strings.Repeat(`"a",`, maxSources) + `"a"],"dest":"b"}`,
	} {
		if got, err := Parse([]byte(body), true); !errors.Is(err, ErrBadParams) {
			t.Errorf("%.80s: %+v, %v", body, got, err)
		}
	}
}

func TestHostPathIsAboutTheProject(t *testing.T) {
	for raw, want := range map[string]string{
		"out/a.txt": "/w/app/out/a.txt", "~/x": "/home/u/x", "~": "/home/u", "/srv/x": "/srv/x", "../x": "/w/x", "-rf": "/w/app/-rf",
		".": "/w/app", "a/../../x": "/w/x", "~other/x": "/w/app/~other/x", "/srv/../etc": "/etc",
	} {
		if got, err := HostPath(raw, "/home/u", "/w/app"); err != nil || got != want {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
	}
	if got, err := HostPath("x", "/home/u", ""); !errors.Is(err, ErrBadParams) {
		t.Errorf("without a project: %s, %v", got, err)
	}
}

func TestWithin(t *testing.T) {
	for name, want := range map[string]string{"/w/app": ".", "/w/app/a/b": "a/b", "/w/app/..x": "..x", "/w/apple": "", "/w": "", "/": "", "/etc": ""} {
		if rel, ok := Within("/w/app", name); ok != (want != "") || ok && rel != want {
			t.Errorf("%s: %s, %v", name, rel, ok)
		}
	}
	if _, ok := Within("", "/w"); ok {
		t.Error("a path lies in no project")
	}
}

func TestLooksSecret(t *testing.T) {
	for _, name := range []string{
		".env", ".ENV", "a/.env.local", ".envrc", ".ssh/config", ".SSH/x", "a/.aws/b/c", ".config/gh/hosts.yml", "x/CREDENTIALS", ".npmrc", ".netrc",
		"k.pem", "k.KEY", "id_ed25519", ".git-credentials", ".docker/config.json", ".kube/config", ".pypirc", "k.p8", "k.ppk", "prod.tfvars",
		"service-account-prod.json", "\u017fervice-account.json", ".en\u200bv", ".env.", "a/.env::$DATA", ".\u212aube/x",
	} {
		if !LooksSecret(name) {
			t.Errorf("%q passes", name)
		}
	}
	for _, name := range []string{"a.txt", "env", "keys.go", "credentials.go", ".environment", "config/gh/x", "docker/config.json", "key", "public/id_rsa.pub"} {
		if LooksSecret(name) {
			t.Errorf("%q looks secret", name)
		}
	}
}

func TestExcludes(t *testing.T) {
	for _, row := range []struct {
		c      Choice
		rel    string
		folder bool
		want   bool
	}{
		{Choice{}, "a/node_modules", true, true},
		{Choice{}, "a/bin", false, false},
		{Choice{Heavy: true}, ".git", true, false},
		{Choice{Flat: true, Heavy: true}, "a", true, true},
		{Choice{Exclude: []string{"*.log"}}, "a/b.log", false, true},
		{Choice{Exclude: []string{"tmp/"}}, "a/tmp", true, true},
		{Choice{Exclude: []string{"a/*.go"}}, "a/b.go", false, true},
		{Choice{Exclude: []string{"a/*.go"}}, "b/a/b.go", false, false},
	} {
		if got := row.c.Excludes(row.rel, row.folder); got != row.want {
			t.Errorf("%+v: %v", row, got)
		}
	}
}

// made is an archive of these headers; a file's content is as long as it says.
func made(t testing.TB, heads ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range heads {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(w, strings.NewReader(strings.Repeat("x", int(h.Size))), h.Size); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func dir(name string) tar.Header {
	return tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: 0o7777}
}

func file(name string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o4755, Size: 3}
}

func TestReadRefusesHostileArchives(t *testing.T) {
	limit := Limits{Entries: 4, Bytes: 10, Depth: 3}
	whole := made(t, file("0"))
	for name, archive := range map[string][]byte{
		"absolute":      made(t, dir("0"), file("/etc/x")),
		"upwards":       made(t, dir("0"), file("0/../../x")),
		"not clean":     made(t, dir("0"), file("0//x")),
		"backslash":     made(t, dir("0"), file(`0/..\x`)),
		"not text":      made(t, dir("0"), file("0/\xff")),
		"link":          made(t, dir("0"), tar.Header{Name: "0/l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}),
		"hard link":     made(t, dir("0"), tar.Header{Name: "0/l", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}),
		"device":        made(t, tar.Header{Name: "0", Typeflag: tar.TypeChar}),
		"pipe":          made(t, tar.Header{Name: "0", Typeflag: tar.TypeFifo}),
		"twice":         made(t, dir("0"), file("0/x"), file("0/x")),
		"below a file":  made(t, file("0"), file("0/x")),
		"no parent":     made(t, dir("0"), file("0/a/x")),
		"other source":  made(t, dir("1")),
		"named source":  made(t, dir("0"), file("x")),
		"second source": made(t, file("0"), file("1")),
		"nothing":       made(t),
		"too many":      made(t, dir("0"), file("0/1"), file("0/2"), dir("0/3"), dir("0/4")),
		"too large":     made(t, dir("0"), file("0/1"), file("0/2"), file("0/3"), tar.Header{Name: "0/4", Typeflag: tar.TypeReg, Size: 2}),
		"too deep":      made(t, dir("0"), dir("0/a"), dir("0/a/b"), dir("0/a/b/c")),
		"a long name":   made(t, dir("0"), file("0/"+strings.Repeat("n", maxName+1))),
		"cut in a file": whole[:513],
		"cut in a head": whole[:100],
		"no archive":    bytes.Repeat([]byte("junk"), 300),
	} {
		err := Read(bytes.NewReader(archive), 1, limit, func(_ Entry, content io.Reader) error {
			_, err := io.Copy(io.Discard, content)
			if err != nil {
				return errors.Join(ErrBadArchive, err)
			}
			return nil
		})
		if !errors.Is(err, ErrBadArchive) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// endless repeats a block for ever.
type endless struct{ block []byte }

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.block)
	}
	return n, nil
}

func TestReadEndsAnEndlessArchive(t *testing.T) {
	extension := made(t, tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}})[:1024]
	head := made(t, dir("0"))[:512]
	err := Read(io.MultiReader(bytes.NewReader(head), endless{extension}), 1, Limits{Entries: 10, Bytes: 1 << 10, Depth: 5}, func(Entry, io.Reader) error { return nil })
	if !errors.Is(err, ErrBadArchive) {
		t.Error(err)
	}
}

func TestWriterIsReadBack(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	want := []Entry{{Path: "0", Folder: true}, {Path: "0/run", Executable: true, Size: 3}, {Path: "1", Size: 3}}
	for _, e := range want {
		if err := w.Add(e, strings.NewReader("abc")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var got []Entry
	if err := Read(&buf, 2, DefaultLimits(), func(e Entry, _ io.Reader) error { got = append(got, e); return nil }); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if n, rel := got[1].Source(); n != 0 || rel != "run" {
		t.Errorf("source %d, %s", n, rel)
	}
	if n, rel := got[2].Source(); n != 1 || rel != "." {
		t.Errorf("source %d, %s", n, rel)
	}
	if err := NewWriter(io.Discard).Add(Entry{Path: "0", Size: 4}, strings.NewReader("abc")); err == nil {
		t.Error("a file that shrank passes")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(made(f, dir("0"), file("0/x")))
	f.Add(made(f, dir("0"), file("0/../x")))
	f.Fuzz(func(t *testing.T, archive []byte) {
		limit := Limits{Entries: 8, Bytes: 1 << 12, Depth: 4}
		var entries int
		var bytesRead int64
		_ = Read(bytes.NewReader(archive), 1, limit, func(e Entry, content io.Reader) error {
			n, err := io.Copy(io.Discard, content)
			entries, bytesRead = entries+1, bytesRead+n
			if strings.Contains("/"+e.Path+"/", "/../") || strings.HasPrefix(e.Path, "/") || e.Path != "0" && !strings.HasPrefix(e.Path, "0/") {
				t.Errorf("a path leads out: %q", e.Path)
			}
			return err
		})
		if entries > limit.Entries || bytesRead > limit.Bytes {
			t.Errorf("%d entries, %d bytes", entries, bytesRead)
		}
	})
}
