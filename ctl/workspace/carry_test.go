package workspace_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/setup"
	"github.com/madarco/agentbox/ctl/workspace"
	"github.com/madarco/agentbox/relay/gitgate"
)

// user is a repository of a user in a folder of the test's own.
type user struct {
	t   *testing.T
	dir string
}

func newUser(t *testing.T, args ...string) user {
	t.Helper()
	u := user{t, filepath.Join(t.TempDir(), "my project")}
	u.gitIn("/", append([]string{"init", "-q", "-b", "main"}, append(args, u.dir)...)...)
	u.git("config", "user.name", "Ada")
	u.git("config", "user.email", "ada@example.com")
	return u
}

func (u user) git(args ...string) string { u.t.Helper(); return u.gitIn(u.dir, args...) }

func (u user) gitIn(dir string, args ...string) string {
	u.t.Helper()
	out, err := u.try(dir, args...)
	if err != nil {
		u.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return out
}

func (u user) try(dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(u.t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_OPTIONAL_LOCKS=0", "GIT_ALLOW_PROTOCOL=file")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (u user) write(name, text string) {
	u.t.Helper()
	path := filepath.Join(u.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		u.t.Fatal(err)
	}
	_ = os.Remove(path)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		u.t.Fatal(err)
	}
}

func (u user) do(errs ...error) {
	u.t.Helper()
	for _, err := range errs {
		if err != nil {
			u.t.Fatal(err)
		}
	}
}

func (u user) commit(message string) {
	u.t.Helper()
	u.git("add", "-A")
	u.git("commit", "-qm", message)
}

// remote gives the user a bare remote that has what is committed so far.
func (u user) remote() {
	u.t.Helper()
	bare := filepath.Join(u.t.TempDir(), "remote.git")
	format := strings.TrimSpace(u.git("rev-parse", "--show-object-format"))
	u.gitIn("/", "init", "-q", "--bare", "-b", "main", "--object-format="+format, bare)
	u.git("remote", "add", "origin", bare)
	u.git("push", "-q", "-u", "origin", "main")
	u.git("remote", "set-head", "origin", "main")
}

// box takes the repository into a box and returns it there, with what the
// capture said.
func (u user) box(opts gitgate.CaptureOptions) (user, *gitgate.Carry) {
	u.t.Helper()
	ctx := u.t.Context()
	home := core.Home(filepath.Join(u.t.TempDir(), "home"))
	u.do(home.Create())
	before := manifest(u.t, filepath.Join(u.dir, ".git"))
	host, err := gitgate.New(home, gitgate.Options{})
	u.do(err)
	repo, err := host.Open(ctx, u.dir)
	u.do(err)
	record := repo.Record("agentbox/test")
	record.BoxPath = core.BoxPath(filepath.Join(u.t.TempDir(), "workspace"))
	u.do(host.RefreshSeed(ctx, repo))
	carry, err := host.Capture(ctx, repo, opts)
	u.do(err)
	described, err := host.SetupRepo(ctx, repo, record, carry, gitgate.Place{
		Endpoint: "http://127.0.0.1:8788/git/" + repo.Key, Alternates: host.SeedObjects(repo.Key),
	})
	u.do(err)
	var stream bytes.Buffer
	u.do(setup.WriteHeader(&stream, setup.Header{BoxID: "b00000001", Repos: []setup.Repo{described}}))
	u.do(carry.WriteSections(ctx, &stream))
	if diff := cmp.Diff(before, manifest(u.t, filepath.Join(u.dir, ".git"))); diff != "" {
		u.t.Errorf("the user's .git changed:\n%s", diff)
	}
	header, err := setup.ReadHeader(&stream)
	u.do(err, workspace.Build(ctx, header.Repos[0], &stream))
	if stream.Len() > 0 {
		u.t.Errorf("%d bytes of the stream were left", stream.Len())
	}
	return user{u.t, string(record.BoxPath)}, carry
}

// manifest describes every file below dir: kind, mode, content.
func manifest(t *testing.T, dir string, except ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		for _, e := range except {
			if rel == e && d.IsDir() {
				return fs.SkipDir
			} else if rel == e {
				return nil
			}
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			out[rel] = "-> " + target
			return err
		}
		data, err := os.ReadFile(path)
		out[rel] = fmt.Sprintf("%v %x", info.Mode()&0o100 != 0, sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// same compares what git and the file system say about both.
func same(t *testing.T, a, b user, leftOut ...string) {
	t.Helper()
	if diff := cmp.Diff(manifest(t, a.dir, append(leftOut, ".git")...), manifest(t, b.dir, ".git")); diff != "" {
		t.Errorf("files differ (-host +box):\n%s", diff)
	}
	status := func(u user) []string {
		return strings.Split(u.git("status", "--porcelain=v2", "-uall", "-z"), "\x00")
	}
	want := status(a)
	for _, name := range leftOut {
		want = without(want, "? "+name)
	}
	if diff := cmp.Diff(want, status(b)); diff != "" {
		t.Errorf("status differs (-host +box):\n%s", diff)
	}
	for _, args := range [][]string{{"ls-files", "-s", "-v"}, {"rev-parse", "HEAD^{tree}"}, {"diff", "--cached"}} {
		if diff := cmp.Diff(a.git(args...), b.git(args...)); diff != "" {
			t.Errorf("%v differs (-host +box):\n%s", args, diff)
		}
	}
}

func without(lines []string, line string) []string {
	var out []string
	for _, l := range lines {
		if l != line {
			out = append(out, l)
		}
	}
	return out
}

// dirty makes a work tree with every kind of change that git tells apart.
func (u user) dirty() {
	u.t.Helper()
	path := func(name string) string { return filepath.Join(u.dir, name) }
	for _, name := range []string{"staged", "unstaged", "both", "gone-staged", "gone", "old name", "script", "kept", "skipped", "assumed", "to link", "to dir", "dir to file/x", `with "quotes" and ` + "\ttab", "plain/a/b/c"} {
		u.write(name, "first "+name+"\n")
	}
	u.write(".gitattributes", "*.crlf text eol=crlf\n*.f filter=missing\n")
	u.write("x.crlf", "one\ntwo\n")
	u.write("x.f", "raw\n")
	u.write("conflict", "base\n")
	u.do(os.Symlink("staged", path("link")))
	u.commit("first")
	u.git("checkout", "-q", "-b", "side")
	u.write("conflict", "theirs\n")
	u.commit("theirs")
	u.git("checkout", "-q", "main")
	u.write("conflict", "ours\n")
	u.commit("ours")
	u.remote()
	u.git("push", "-q", "origin", "side")
	if out, err := u.try(u.dir, "merge", "side"); err == nil {
		u.t.Fatalf("no conflict: %s", out)
	}
	u.write("staged", "second\n")
	u.write("both", "second\n")
	u.write("new staged", "new\n")
	u.write("empty staged", "")
	u.git("add", "staged", "both", "new staged", "empty staged")
	u.write("both", "third\n")
	u.write("unstaged", "second\n")
	u.write(`with "quotes" and `+"\ttab", "second\n")
	u.git("rm", "-q", "gone-staged")
	u.git("mv", "old name", "new name")
	u.git("rm", "-q", "--cached", "kept")
	u.write("intended", "only intended\n")
	u.write("intended and gone", "")
	u.git("add", "-N", "intended", "intended and gone")
	u.do(
		os.Remove(path("intended and gone")), os.Remove(path("gone")), os.Chmod(path("script"), 0o755),
		os.Remove(path("link")), os.Symlink("unstaged", path("link")),
		os.Remove(path("to link")), os.Symlink("/etc/hostname", path("to link")),
		os.RemoveAll(path("dir to file")), os.Remove(path("to dir")), os.Remove(path("skipped")),
	)
	u.write("dir to file", "file\n")
	u.write("to dir/inside", "file\n")
	u.write("x.crlf", "one\r\ntwo\r\nthree\r\n")
	u.write("x.f", "raw, changed\n")
	u.write("nested/un tracked/ünï", "untracked\n")
	u.do(os.Symlink("nowhere", path("nested/dangling")))
	u.git("update-index", "--skip-worktree", "skipped")
	u.git("update-index", "--assume-unchanged", "assumed")
	u.write("assumed", "git looks away\n")
}

func TestDirtyStateIsCarriedExactly(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, "--object-format="+format)
			u.dirty()
			b, carry := u.box(gitgate.CaptureOptions{})
			same(t, u, b)
			if got := strings.TrimSpace(b.git("symbolic-ref", "HEAD")); got != "refs/heads/agentbox/test" {
				t.Errorf("the box is on %s", got)
			}
			if got, want := b.git("rev-parse", "MERGE_HEAD", "origin/main", "host/main", "main"), u.git("rev-parse", "MERGE_HEAD", "origin/main", "main", "main"); got != want {
				t.Errorf("refs in the box: %s, want %s", got, want)
			}
			if carry.Conflicts != 1 || carry.Deleted != 4 || carry.Untracked != 5 || len(carry.LeftOut) > 0 || len(carry.Notes) > 0 {
				t.Errorf("told: %d conflicts, %d deleted, %d untracked, left out %v, notes %v", carry.Conflicts, carry.Deleted, carry.Untracked, carry.LeftOut, carry.Notes)
			}
			b.git("fsck", "--connectivity-only")
		})
	}
}

func TestOddRepositoriesAreCarried(t *testing.T) {
	t.Parallel()
	for name, shape := range map[string]func(t *testing.T, u user) user{
		"clean": func(_ *testing.T, u user) user { return u },
		"without remote": func(_ *testing.T, u user) user {
			u.git("remote", "remove", "origin")
			return u
		},
		"unpushed base": func(_ *testing.T, u user) user {
			u.write("more", "more\n")
			u.commit("not pushed")
			u.git("tag", "-a", "mine", "-m", "private")
			return u
		},
		"detached": func(_ *testing.T, u user) user {
			u.git("checkout", "-q", "HEAD^0")
			u.write("a", "changed\n")
			return u
		},
		"linked work tree": func(t *testing.T, u user) user {
			linked := filepath.Join(t.TempDir(), "linked")
			u.git("worktree", "add", "-q", "-b", "feature", linked)
			l := user{t, linked}
			l.write("a", "changed in the linked one\n")
			l.git("add", "a")
			l.write("b", "new\n")
			return l
		},
		"shallow": func(t *testing.T, u user) user {
			u.write("a", "second\n")
			u.commit("second")
			u.git("push", "-q", "origin", "main")
			s := user{t, filepath.Join(t.TempDir(), "shallow")}
			u.gitIn("/", "clone", "-q", "--depth=1", "file://"+strings.TrimSpace(u.git("remote", "get-url", "origin")), s.dir)
			s.write("b", "new\n")
			return s
		},
		"partial": func(t *testing.T, u user) user {
			u.write("a", "second\n")
			u.commit("second")
			u.git("push", "-q", "origin", "main")
			bare := strings.TrimSpace(u.git("remote", "get-url", "origin"))
			u.gitIn(bare, "config", "uploadpack.allowFilter", "true")
			u.gitIn(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
			s := user{t, filepath.Join(t.TempDir(), "partial")}
			u.gitIn("/", "clone", "-q", "--filter=blob:none", "file://"+bare, s.dir)
			s.write("b", "new\n")
			return s
		},
		"alternates": func(t *testing.T, u user) user {
			s := user{t, filepath.Join(t.TempDir(), "borrowing")}
			u.gitIn("/", "clone", "-q", "--shared", u.dir, s.dir)
			return s
		},
		"sparse": func(_ *testing.T, u user) user {
			u.write("far/away", "not here\n")
			u.write("near/by", "here\n")
			u.commit("folders")
			u.git("push", "-q", "origin", "main")
			u.git("sparse-checkout", "set", "near")
			return u
		},
		"ignored by the user alone": func(_ *testing.T, u user) user {
			u.do(os.MkdirAll(filepath.Join(u.dir, ".git", "info"), 0o755), os.WriteFile(filepath.Join(u.dir, ".git", "info", "exclude"), []byte("*.log\n"), 0o600))
			return u
		},
		"mode and line ends": func(_ *testing.T, u user) user {
			u.git("config", "core.fileMode", "false")
			u.git("config", "core.autocrlf", "true")
			u.write("crlf", "a\r\nb\r\n")
			u.git("add", "crlf")
			u.do(os.Chmod(filepath.Join(u.dir, "a"), 0o755))
			return u
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			u.write("a", "first\n")
			u.commit("first")
			u.remote()
			u = shape(t, u)
			b, _ := u.box(gitgate.CaptureOptions{})
			same(t, u, b)
			b.write("work", "done\n")
			b.git("add", "work")
			b.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "work")
			if out, err := b.try(b.dir, "cat-file", "-e", "mine"); err == nil {
				t.Errorf("the user's own tag is in the box: %s", out)
			}
			b.write("x.log", "")
			if name == "ignored by the user alone" && strings.Contains(b.git("status", "--porcelain"), "x.log") {
				t.Error("the user's ignore rules did not come along")
			}
		})
	}
}

func TestSecretsAndForeignThingsStayOut(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.write("a", "first\n")
	u.commit("first")
	u.remote()
	outside := filepath.Join(t.TempDir(), "outside")
	u.do(os.MkdirAll(outside, 0o755), os.WriteFile(filepath.Join(outside, "secret"), []byte("outside"), 0o600))
	u.write(".env", "TOKEN=1\n")
	u.write("allowed.pem", "not really\n")
	u.write("notes.txt", "key: ghp_"+strings.Repeat("a1", 18)+"\n")
	u.write("big", strings.Repeat("x", 3<<20))
	u.write("fine", "fine\n")
	u.gitIn("/", "init", "-q", filepath.Join(u.dir, "nested"))
	u.do(os.Symlink(outside, filepath.Join(u.dir, "link")))
	b, carry := u.box(gitgate.CaptureOptions{Include: []string{"allowed.pem"}, FileBytes: 2 << 20})
	got := map[string]string{}
	for _, l := range carry.LeftOut {
		got[string(l.Path)] = l.Reason
	}
	want := map[string]string{
		".env": "its name looks like a secret's", "notes.txt": "it holds what looks like a credential", "big": "larger than 2 MB", "nested/": "a git repository of its own",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(manifest(t, u.dir, ".git", "nested", ".env", "notes.txt", "big"), manifest(t, b.dir, ".git")); diff != "" {
		t.Errorf("in the box (-want +got):\n%s", diff)
	}
}

func TestAHiddenMergeIsCarriedAsEdits(t *testing.T) {
	t.Parallel()
	for _, parents := range []bool{false, true} {
		u := newUser(t)
		u.write("a", "base\n")
		u.commit("base")
		u.remote()
		u.git("checkout", "-q", "-b", "private")
		u.write("a", "private\n")
		u.commit("private")
		u.git("checkout", "-q", "main")
		u.write("a", "main\n")
		u.commit("main")
		if _, err := u.try(u.dir, "merge", "private"); err == nil {
			t.Fatal("no conflict")
		}
		b, carry := u.box(gitgate.CaptureOptions{MergeParents: parents})
		same(t, u, b)
		_, err := b.try(b.dir, "rev-parse", "-q", "--verify", "MERGE_HEAD^{commit}")
		if (err == nil) != parents || (len(carry.Notes) > 0) == parents {
			t.Errorf("consent %t: MERGE_HEAD %v, notes %v", parents, err, carry.Notes)
		}
		if _, err := b.try(b.dir, "cat-file", "-e", strings.TrimSpace(u.git("rev-parse", "private"))); (err == nil) != parents {
			t.Errorf("consent %t: the private commit: %v", parents, err)
		}
	}
}
