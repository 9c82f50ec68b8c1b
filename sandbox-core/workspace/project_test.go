package workspace

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/setup"
	"github.com/madarco/agentbox/relay/gitgate"
)

const token = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// user is a user with a home folder, a state folder and a project.
func user(t *testing.T) (git *gitgate.Host, home core.Home, project string) {
	t.Helper()
	top := t.TempDir()
	t.Setenv("HOME", filepath.Join(top, "user"))
	project = filepath.Join(top, "user", "shop")
	if err := os.MkdirAll(project, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"-c", "user.name=U", "-c", "user.email=u@example.test", "commit", "-q", "--allow-empty", "-m", "one"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = project
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	home = core.Home(filepath.Join(top, "state"))
	git, err := gitgate.New(home, gitgate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return git, home, project
}

func quiet(string) func(error) { return func(error) {} }

func TestAProjectFillsABox(t *testing.T) {
	git, home, dir := user(t)
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("dirty\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".env"), []byte("KEY=value\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Open(t.Context(), git, home, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	box := core.Box{ID: "b00000001", Name: "shop", Repos: p.Repos("agentbox/shop")}
	seeds, err := p.Seeds(t.Context(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	key := box.Repos[0].Key
	if seeds[key] != filepath.Join(home.Seed(key), "objects") {
		t.Errorf("seeds %v", seeds)
	}
	if err := p.Prepare(t.Context(), box, quiet); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(p.Notes(), "\n"), "uncommitted work that the box got: 1 untracked\nleft out: \".env\" ("; !strings.HasPrefix(got, want) {
		t.Errorf("notes %s", got)
	}
	var stream bytes.Buffer
	if err := p.Setup(box, token)(t.Context(), &stream); err != nil {
		t.Fatal(err)
	}
	h, err := setup.ReadHeader(&stream)
	if err != nil {
		t.Fatal(err)
	}
	if !h.Go || h.BoxID != box.ID || h.RelayEnv["AGENTBOX_RELAY_TOKEN"] != token || h.RelayEnv["AGENTBOX_HOST_RELAY_URL"] != "unix:///run/agentbox/relay/relay.sock" {
		t.Errorf("header %+v", h)
	}
	if r := h.Repos[0]; r.Branch != "agentbox/shop" || r.Endpoint != "http://127.0.0.1:8788/git/"+key || r.Alternates != "/run/agentbox/seed/"+key+"/objects" {
		t.Errorf("repository %+v", r)
	}
	var files []string
	for _, s := range setup.Sections {
		section := setup.NewSection(&stream)
		if s == setup.Files {
			files = names(t, section)
		}
		if _, err := io.Copy(io.Discard, section); err != nil {
			t.Fatalf("section %d: %v", s, err)
		}
	}
	if !slices.Contains(files, "notes.txt") || stream.Len() != 0 {
		t.Errorf("files %v, and %d bytes after the stream", files, stream.Len())
	}
	keepsNoToken(t, home)
}

func names(t *testing.T, r io.Reader) []string {
	t.Helper()
	var out []string
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, h.Name)
	}
}

func keepsNoToken(t *testing.T, home core.Home) {
	t.Helper()
	err := filepath.WalkDir(string(home), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), token) {
			t.Errorf("the token lies in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestARestartHandsOverTheTokenAlone(t *testing.T) {
	var stream bytes.Buffer
	if err := Restart(core.Box{ID: "b00000001", Name: "shop"}, token)(t.Context(), &stream); err != nil {
		t.Fatal(err)
	}
	h, err := setup.ReadHeader(&stream)
	if err != nil || len(h.Repos) != 0 || !h.Go || h.RelayEnv["AGENTBOX_RELAY_TOKEN"] != token || stream.Len() != 0 {
		t.Errorf("header %+v, %v", h, err)
	}
}

func TestOpenGuardsTheRepositoryToo(t *testing.T) {
	git, home, dir := user(t)
	if _, err := Open(t.Context(), git, home, filepath.Dir(dir), Options{}); !errors.Is(err, ErrTooWide) {
		t.Errorf("the home folder: %v", err)
	}
	// A repository at the home folder, opened from a folder below it.
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = filepath.Dir(dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	sub := filepath.Join(filepath.Dir(dir), "elsewhere")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), git, home, sub, Options{}); !errors.Is(err, ErrTooWide) && !errors.Is(err, gitgate.ErrUnsafeFolder) {
		t.Errorf("below a repository of the home folder: %v", err)
	}
}

func TestPrepareEndsWithItsContext(t *testing.T) {
	git, home, dir := user(t)
	p, err := Open(t.Context(), git, home, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	box := core.Box{ID: "b00000001", Name: "shop", Repos: p.Repos("agentbox/shop")}
	if err := p.Prepare(ctx, box, quiet); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
