package gitgate_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/gitgate"
)

// repo is a git repository that a test plays with, in the role of the user,
// the remote or a box.
type repo struct {
	t   testing.TB
	dir string
}

func (r repo) try(stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(context.WithoutCancel(r.t.Context()), "git", append([]string{"-C", r.dir}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
	)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("git %q: %w: %s", args, err, stderr.String())
	}
	return out.String(), nil
}

func (r repo) feed(stdin string, args ...string) string {
	r.t.Helper()
	out, err := r.try(stdin, args...)
	check(r.t, err)
	return strings.TrimSuffix(out, "\n")
}

func (r repo) git(args ...string) string { r.t.Helper(); return r.feed("", args...) }

func (r repo) has(id core.ObjectID) bool {
	_, err := r.try("", "cat-file", "-e", string(id))
	return err == nil
}

func (r repo) id(name string) core.ObjectID {
	r.t.Helper()
	return core.ObjectID(r.git("rev-parse", "--verify", name))
}

// ref is the value of a ref, "" if there is none.
func (r repo) ref(name string) core.ObjectID {
	out, err := r.try("", "rev-parse", "-q", "--verify", name)
	if err != nil {
		return ""
	}
	return core.ObjectID(strings.TrimSpace(out))
}

// commit writes one file and commits it.
func (r repo) commit(name, text string) core.ObjectID {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	check(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(r.t, os.WriteFile(path, []byte(text), 0o600))
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "change "+name)
	return r.id("HEAD")
}

// tree commits a tree made of raw entries on top of HEAD, whatever git thinks
// of it.
func (r repo) tree(raw string) core.ObjectID {
	r.t.Helper()
	tree := r.feed(raw, "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
	return core.ObjectID(r.git("commit-tree", tree, "-p", "HEAD", "-m", "raw"))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a user with a remote, a box of theirs, and the host between them.
type world struct {
	t            testing.TB
	home         core.Home
	host         *gitgate.Host
	user, remote repo
	box          repo
	record       core.Repo
	rec          core.Box
	gate         relay.Gate
}

const ownBranch core.BranchName = "agentbox/one"

func newWorld(t testing.TB, shape ...func(w *world)) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, home: core.Home(filepath.Join(dir, "home"))}
	w.user, w.remote = repo{t, filepath.Join(dir, "user")}, repo{t, filepath.Join(dir, "remote.git")}
	root := repo{t, dir}
	root.git("init", "-q", "-b", "main", w.user.dir)
	root.git("init", "-q", "--bare", "-b", "main", w.remote.dir)
	w.user.commit("README", "first\n")
	w.user.git("remote", "add", "origin", w.remote.dir)
	w.user.git("push", "-q", "-u", "origin", "main")
	w.user.git("remote", "set-head", "origin", "main")
	for _, s := range shape {
		s(w)
	}
	if w.host == nil {
		w.open(gitgate.Options{})
	}
	w.rec, w.record, w.gate = w.newBox("b00000001", ownBranch)
	w.box = w.clone("box")
	w.box.git("checkout", "-q", "-b", string(ownBranch), string(w.record.BaseOID))
	return w
}

// clone makes the repository of a box: it has the user's base.
func (w *world) clone(name string) repo {
	w.t.Helper()
	r := repo{w.t, filepath.Join(w.t.TempDir(), name)}
	repo{w.t, "/"}.git("clone", "-q", "--no-local", "--single-branch", "-b", "main", w.user.dir, r.dir)
	return r
}

func (w *world) open(opts gitgate.Options) {
	w.t.Helper()
	check(w.t, w.home.Create())
	host, err := gitgate.New(w.home, opts)
	check(w.t, err)
	w.t.Cleanup(host.Settle)
	w.host = host
}

func (w *world) newBox(id string, branch core.BranchName) (core.Box, core.Repo, relay.Gate) {
	w.t.Helper()
	ctx := w.t.Context()
	opened, err := w.host.Open(ctx, w.user.dir)
	check(w.t, err)
	check(w.t, w.host.RefreshSeed(ctx, opened))
	record := opened.Record(branch)
	box := core.Box{ID: id, Name: "one", Repos: []core.Repo{record}}
	gate, err := w.host.Gate(ctx, box, record)
	check(w.t, err)
	return box, record, gate
}

func (w *world) seed() repo { return repo{w.t, w.home.Seed(w.record.Key)} }

func (w *world) gateRepo() repo { return repo{w.t, w.home.Gate(w.rec.ID, w.record.Key)} }

// pack spools what a box would send for tip.
func (w *world) pack(from repo, tip core.ObjectID, without ...core.ObjectID) string {
	w.t.Helper()
	list := string(tip) + "\n"
	for _, id := range without {
		list += "^" + string(id) + "\n"
	}
	pack, err := from.try(list, "pack-objects", "--revs", "--thin", "--stdout", "-q", "--delta-base-offset")
	check(w.t, err)
	return w.spool(pack)
}

// packOf spools a pack of exactly the named objects.
func (w *world) packOf(from repo, ids ...core.ObjectID) string {
	w.t.Helper()
	list := ""
	for _, id := range ids {
		list += string(id) + "\n"
	}
	pack, err := from.try(list, "pack-objects", "--stdout", "-q")
	check(w.t, err)
	return w.spool(pack)
}

func (w *world) spool(pack string) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "pack")
	check(w.t, os.WriteFile(path, []byte(pack), 0o600))
	return path
}

func (w *world) importTip(pack string, tip core.ObjectID) error {
	return w.take(w.gate, pack, policy.RefUpdate{Ref: wire.LandingPrefix + string(ownBranch), New: tip})
}

// take imports the pack in a file, none if path is empty.
func (w *world) take(gate relay.Gate, path string, updates ...policy.RefUpdate) error {
	w.t.Helper()
	if path == "" {
		return gate.Import(w.t.Context(), nil, updates)
	}
	f, err := os.Open(path)
	check(w.t, err)
	defer f.Close()
	return gate.Import(w.t.Context(), f, updates)
}

// land hands a commit of the box in, from import to landing.
func (w *world) land(tip core.ObjectID, without ...core.ObjectID) wire.Landing {
	w.t.Helper()
	pack := w.pack(w.box, tip, without...)
	check(w.t, w.importTip(pack, tip))
	l, err := w.gate.Land(w.t.Context(), relay.LandRequest{Branch: ownBranch, Tip: tip})
	check(w.t, err)
	return l
}

// manifest describes every file below dir.
func manifest(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(data)
		}
		out[path] = fmt.Sprintf("%v %x", info.Mode(), sha256.Sum256([]byte(text)))
		return nil
	}))
	return out
}
