package gitgate_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/setup"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/gitgate"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &world{t: t, home: core.Home(filepath.Join(dir, "home"))}
	w.open(gitgate.Options{})
	root := repo{t, dir}
	root.git("init", "-q", "--bare", "bare.git")
	root.git("init", "-q", "unborn")
	check(t, os.Mkdir(filepath.Join(dir, "plain"), 0o755))
	// A project that carries a repository of somebody else's making.
	outer := repo{t, filepath.Join(dir, "outer")}
	root.git("init", "-q", outer.dir)
	outer.commit("a", "a")
	root.git("init", "-q", "--bare", filepath.Join(outer.dir, "vendor"))
	holder := repo{t, filepath.Join(dir, "holder")}
	root.git("init", "-q", holder.dir)
	holder.commit("a", "a")
	w2 := &world{t: t, home: core.Home(filepath.Join(holder.dir, "state"))}
	w2.open(gitgate.Options{})
	for _, c := range []struct {
		host *gitgate.Host
		dir  string
		want error
	}{
		{w.host, filepath.Join(dir, "plain"), gitgate.ErrNotRepository},
		{w.host, filepath.Join(dir, "missing"), os.ErrNotExist},
		{w.host, filepath.Join(dir, "bare.git"), gitgate.ErrBare},
		{w.host, filepath.Join(outer.dir, "vendor"), gitgate.ErrBare},
		{w.host, filepath.Join(dir, "unborn"), gitgate.ErrUnborn},
		{w2.host, holder.dir, gitgate.ErrUnsafeFolder},
	} {
		if _, err := c.host.Open(t.Context(), c.dir); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.dir, err, c.want)
		}
	}
}

func TestOpenDescribes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user.git("remote", "add", "fork", "https://ada:s3cret@example.com/ada/shop.git")
	w.user.git("config", "remote.-odd.url", "https://example.com/x")
	w.user.git("config", "branch.main.pushRemote", "fork")
	linked := filepath.Join(t.TempDir(), "linked")
	w.user.git("worktree", "add", "-q", "-b", "topic", linked)
	main, err := w.host.Open(t.Context(), filepath.Join(w.user.dir, "."))
	check(t, err)
	if main.Remote != "fork" || main.URL != "https://example.com/ada/shop.git" || main.Branch != "main" || main.Linked || main.ObjectFormat != "sha1" {
		t.Errorf("%+v", main)
	}
	topic, err := w.host.Open(t.Context(), linked)
	check(t, err)
	if topic.Key != main.Key || !topic.Linked || topic.Remote != "origin" || topic.DefaultBranch != "main" || topic.Branch != "topic" || topic.CommonDir != main.CommonDir {
		t.Errorf("%+v", topic)
	}
	if r := topic.Record(ownBranch); !core.ValidRepoKey(r.Key) || r.BaseBranch != "topic" || r.BaseOID != w.record.BaseOID || r.Branch != ownBranch {
		t.Errorf("%+v", r)
	}
}

// TestSeedHidesWhatIsPrivate lists what a box of the project must never read.
func TestSeedHidesWhatIsPrivate(t *testing.T) {
	t.Parallel()
	private := map[string]core.ObjectID{}
	w := newWorld(t, func(w *world) {
		u := w.user
		u.git("tag", "v1")
		u.git("push", "-q", "origin", "v1")
		u.git("checkout", "-q", "-b", "local")
		private["commit of a local branch"] = u.commit("local", "local\n")
		private["its blob"] = u.id("HEAD:local")
		u.git("tag", "-a", "mine", "-m", "mine")
		private["tag of it"] = u.id("mine")
		private["commit on another remote"] = u.commit("elsewhere", "e\n")
		u.git("update-ref", "refs/remotes/elsewhere/x", "HEAD")
		private["commit of another box"] = u.commit("box", "b\n")
		u.git("update-ref", "refs/remotes/origin/agentbox/two", "HEAD")
		u.git("checkout", "-q", "main")
		check(w.t, os.WriteFile(filepath.Join(u.dir, "README"), []byte("stashed\n"), 0o600))
		u.git("stash", "-q")
		private["stash"] = u.id("refs/stash")
		private["dangling blob"] = core.ObjectID(u.feed("dangling", "hash-object", "-w", "--stdin"))
		private["unpushed base"] = u.commit("base", "base\n")
		u.git("gc", "-q")
	})
	for what, id := range private {
		if w.seed().has(id) {
			t.Errorf("%s is in the seed", what)
		}
		if w.gateRepo().has(id) != (what == "unpushed base") {
			t.Errorf("%s: in the gate %t", what, w.gateRepo().has(id))
		}
	}
	if w.seed().ref("refs/seed/remotes/origin/heads/main") == "" || w.seed().ref("refs/seed/remotes/origin/tags/v1") == "" {
		t.Errorf("the seed lacks public refs: %s", w.seed().git("for-each-ref"))
	}
	packs := func() int {
		found, err := filepath.Glob(filepath.Join(w.host.SeedObjects(w.record.Key), "pack", "*.pack"))
		check(t, err)
		return len(found)
	}
	before := packs()
	opened, err := w.host.Open(t.Context(), w.user.dir)
	check(t, err)
	check(t, w.host.RefreshSeed(t.Context(), opened))
	if packs() != before {
		t.Error("a refresh without news writes a pack")
	}
}

// TestSeedIsReadableInABox: the box user is another one, and only the folder
// above the objects keeps others out.
func TestSeedIsReadableInABox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	objects := w.host.SeedObjects(w.record.Key)
	check(t, filepath.WalkDir(objects, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if want := map[bool]os.FileMode{true: 0o755, false: 0o444}[d.IsDir()]; info.Mode().Perm()&want != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	}))
	st, err := os.Stat(filepath.Dir(objects))
	check(t, err)
	if st.Mode().Perm() != 0o700 {
		t.Errorf("the seed has mode %v", st.Mode())
	}
}

func TestAnotherRepositoryAtThePath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hidden := w.record.BaseOID
	check(t, os.RemoveAll(w.user.dir))
	repo{t, "/"}.git("init", "-q", "-b", "main", w.user.dir)
	w.user.commit("other", "other\n")
	opened, err := w.host.Open(t.Context(), w.user.dir)
	check(t, err)
	if err := w.host.RefreshSeed(t.Context(), opened); !errors.Is(err, gitgate.ErrReplaced) {
		t.Errorf("with a box alive: %v", err)
	}
	check(t, os.RemoveAll(w.home.Box(w.rec.ID)))
	check(t, w.host.RefreshSeed(t.Context(), opened))
	if w.seed().has(hidden) {
		t.Error("the new repository's boxes see the old one's objects")
	}
}

func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != "." && !strings.HasPrefix(rel, "..")
}

// TestForeignOwner works as root on another user's repository: what lands must
// be theirs, and nothing of their configuration may run as us.
func TestForeignOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root may act for another user")
	}
	t.Parallel()
	const uid = 12345
	w := newWorld(t)
	check(t, filepath.WalkDir(w.user.dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	}))
	for dir := w.user.dir; within(os.TempDir(), dir); dir = filepath.Dir(dir) {
		check(t, os.Chmod(dir, 0o755)) //nolint:gosec // the other user must reach it
	}
	opened, err := w.host.Open(t.Context(), w.user.dir)
	check(t, err)
	_ = os.RemoveAll(w.home.Seed(w.record.Key))
	check(t, os.RemoveAll(w.home.Box(w.rec.ID)))
	check(t, w.host.RefreshSeed(t.Context(), opened))
	w.gate, err = w.host.Gate(t.Context(), w.rec, w.record)
	check(t, err)
	tip := w.box.commit("one", "1\n")
	if l := w.land(tip, w.record.BaseOID); l.Status != wire.Landed {
		t.Fatalf("%+v", l)
	}
	check(t, filepath.WalkDir(w.user.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != uid {
			t.Errorf("%s does not belong to the owner", path)
		}
		return err
	}))
}

func TestRewritesCatchTheSameRemoteOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	both := func(spellings ...string) (out []string) {
		for _, spelling := range spellings {
			out = append(out, spelling, spelling+".git")
		}
		return out
	}
	hosted := both("git@example.com:acme/shop", "https://example.com/acme/shop", "ssh://git@example.com/acme/shop")
	for url, want := range map[string][]string{
		"https://example.com/acme/shop.git":   hosted,
		"https://example.com/acme/shop":       hosted,
		"git@example.com:acme/shop.git":       hosted,
		"ssh://me@example.com:2222/shop":      append(both("git@example.com:shop", "https://example.com/shop", "https://example.com:2222/shop", "ssh://git@example.com/shop"), "ssh://me@example.com:2222/shop"),
		"/srv/git/shop.git":                   {"/srv/git/shop.git"},
		"file:///srv/git/shop.git":            {"file:///srv/git/shop.git"},
		"https://ada:secret@example.com/shop": both("git@example.com:shop", "https://example.com/shop", "ssh://git@example.com/shop"),
	} {
		w.user.git("remote", "set-url", "origin", url)
		opened, err := w.host.Open(t.Context(), w.user.dir)
		check(t, err)
		carry, err := w.host.Capture(t.Context(), opened, gitgate.CaptureOptions{})
		check(t, err)
		got, err := w.host.SetupRepo(t.Context(), opened, opened.Record(ownBranch), carry, gitgate.Place{Endpoint: "http://e"})
		check(t, err)
		if diff := cmp.Diff(want, got.Rewrites); diff != "" {
			t.Errorf("%s (-want +got):\n%s", url, diff)
		}
		if strings.Contains(opened.URL, "secret") {
			t.Errorf("%s keeps a secret", opened.URL)
		}
	}
}

func TestAFileThatIsIncludedIsCarriedOrNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, text := range map[string]string{".gitignore": "ignored.env\n", ".env": "KEY=1\n", "ignored.env": "KEY=2\n"} {
		check(t, os.WriteFile(filepath.Join(w.user.dir, name), []byte(text), 0o600))
	}
	opened, err := w.host.Open(t.Context(), w.user.dir)
	check(t, err)
	carry, err := w.host.Capture(t.Context(), opened, gitgate.CaptureOptions{Include: []string{"./.env", "ignored.env", "typo\x1b"}})
	check(t, err)
	if carry.Untracked != 2 || len(carry.LeftOut) != 0 {
		t.Errorf("%d carried, left out %v", carry.Untracked, carry.LeftOut)
	}
	notes := strings.Join(carry.Notes, "\n")
	if strings.Contains(notes, `".env"`) || !strings.Contains(notes, `not carried: "ignored.env", `) || !strings.Contains(notes, `not carried: "typo\u001b", `) {
		t.Errorf("notes %s", notes)
	}
}

func TestSetupRepoGivesTheUsersRefs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.user.git("tag", "-a", "v1", "-m", "v1")
		w.user.git("push", "-q", "origin", "v1")
	})
	opened, err := w.host.Open(t.Context(), w.user.dir)
	check(t, err)
	carry, err := w.host.Capture(t.Context(), opened, gitgate.CaptureOptions{})
	check(t, err)
	got, err := w.host.SetupRepo(t.Context(), opened, w.record, carry, gitgate.Place{Endpoint: "http://e", Alternates: "/seed"})
	check(t, err)
	base := w.record.BaseOID
	want := []setup.Ref{
		{Name: "refs/heads/main", OID: base},
		{Name: "refs/remotes/host/main", OID: base},
		{Name: "refs/remotes/origin/main", OID: base},
		{Name: "refs/tags/v1", OID: w.user.id("v1"), Peeled: base},
	}
	if diff := cmp.Diff(want, got.Refs); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
	if got.Symrefs["refs/remotes/origin/HEAD"] != "refs/remotes/origin/main" || got.HasIndex || got.Alternates != "/seed" {
		t.Errorf("%+v", got)
	}
}
