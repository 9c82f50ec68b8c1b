package transfer

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/provider"
	rules "github.com/madarco/agentbox/core/transfer"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/store"
)

// world is a method whose box answers with what the test says.
type world struct {
	*ToHost
	project, outside string
	box              core.Box
	answer           func(ctx context.Context, w io.Writer) (int, error)
}

func (w *world) Exec(ctx context.Context, _ core.Box, req provider.ExecRequest) (int, error) {
	return w.answer(ctx, req.Stdout)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{project: filepath.Join(dir, "w", "app"), outside: filepath.Join(dir, "outside")}
	for _, d := range []string{filepath.Join(w.project, ".git", "hooks"), w.outside, filepath.Join(dir, "home")} {
		if err := os.MkdirAll(d, 0o755); err != nil { //nolint:gosec // a work tree
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", w.outside)
	w.box = core.Box{ID: "b0000001", ProjectRoot: w.project}
	if w.ToHost, err = NewToHost(core.Home(filepath.Join(dir, "home")), w, 0); err != nil {
		t.Fatal(err)
	}
	w.sends(rules.Entry{Path: "0", Size: 3})
	return w
}

// sends makes the box answer with these entries; a file holds x's.
func (w *world) sends(entries ...rules.Entry) {
	w.answer = func(_ context.Context, out io.Writer) (int, error) {
		a := rules.NewWriter(out)
		for _, e := range entries {
			if err := a.Add(e, strings.NewReader(strings.Repeat("x", int(e.Size)))); err != nil {
				return 1, err
			}
		}
		return 0, a.Close()
	}
}

func (w *world) prepare(t *testing.T, dest string, sources ...string) (relay.Action, error) {
	t.Helper()
	if len(sources) == 0 {
		sources = []string{"/workspace/a.txt"}
	}
	body, err := json.Marshal(map[string]any{"sources": sources, "dest": dest})
	if err != nil {
		t.Fatal(err)
	}
	return w.Prepare(t.Context(), relay.Call{Box: w.box, Method: CopyToHost, Body: body})
}

func (w *world) do(t *testing.T, a relay.Action) store.Outcome {
	t.Helper()
	body, err := json.Marshal(a.Request)
	if err != nil {
		t.Fatal(err)
	}
	return w.Do(t.Context(), relay.Call{Box: w.box, Method: CopyToHost, Body: body}, nil)
}

// tree is all that lies in a folder.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	if err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		all = append(all, rel)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

var safe = policy.Settings{Safe: true}

func TestWhereACopyGoesAndWhetherItAsks(t *testing.T) {
	w := newWorld(t)
	if err := os.Symlink(filepath.Join(w.project, ".git", "hooks"), filepath.Join(w.project, "notes")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(w.outside, filepath.Join(w.project, "away")); err != nil {
		t.Fatal(err)
	}
	for dest, want := range map[string]struct {
		path string
		ask  bool
	}{
		"out/a.txt":             {w.project + "/out/a.txt", false},
		"out/":                  {w.project + "/out/a.txt", false},
		".":                     {w.project + "/a.txt", false},
		"~/x":                   {w.outside + "/x", true},
		w.outside + "/abs":      {w.outside + "/abs", true},
		"../x":                  {filepath.Dir(w.project) + "/x", true},
		"away/x":                {w.outside + "/x", true},
		".git/hooks/pre-commit": {w.project + "/.git/hooks/pre-commit", true},
		".GIT/hooks/x":          {w.project + "/.GIT/hooks/x", true},
		"notes/pre-commit":      {w.project + "/.git/hooks/pre-commit", true},
		".husky/x":              {w.project + "/.husky/x", true},
		".vscode/tasks.json":    {w.project + "/.vscode/tasks.json", true},
		".claude/settings.json": {w.project + "/.claude/settings.json", true},
		".envrc":                {w.project + "/.envrc", true},
		"sub/AgentBox.yaml":     {w.project + "/sub/AgentBox.yaml", true},
		".github/workflows/x":   {w.project + "/.github/workflows/x", true},
		"k.pem":                 {w.project + "/k.pem", true},
	} {
		a, err := w.prepare(t, dest)
		if err != nil {
			t.Errorf("%s: %v", dest, err)
			continue
		}
		if got := a.Request.(request).Targets[0]; got != want.path || !strings.Contains(a.Show.Facts[0].Value, want.path) {
			t.Errorf("%s goes to %s; shown %v", dest, got, a.Show.Facts[0])
		}
		if d := policy.Decide(a.Kind, a.Facts, safe); (d.Verdict == policy.Ask) != want.ask {
			t.Errorf("%s: %+v", dest, d)
		}
	}
}

func TestACopyIsWritten(t *testing.T) {
	w := newWorld(t)
	if err := os.WriteFile(filepath.Join(w.project, "old"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.sends(rules.Entry{Path: "0", Folder: true}, rules.Entry{Path: "0/run", Size: 2, Executable: true}, rules.Entry{Path: "0/d", Folder: true}, rules.Entry{Path: "0/d/x", Size: 1}, rules.Entry{Path: "1", Size: 5})
	for range 2 { // the second merges
		a, err := w.prepare(t, ".", "/workspace/new", "/workspace/old")
		if err != nil {
			t.Fatal(err)
		}
		if out := w.do(t, a); out.Failed {
			t.Fatal(out)
		}
	}
	if got := tree(t, w.project); got != ". .git .git/hooks new new/d new/d/x new/run old" {
		t.Error(got)
	}
	if b, err := os.ReadFile(filepath.Join(w.project, "old")); string(b) != "xxxxx" {
		t.Error(string(b), err)
	}
	if info, err := os.Stat(filepath.Join(w.project, "new", "run")); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Error(info, err)
	}
	if got := tree(t, w.spools.inbox(w.box.ID)); got != "." {
		t.Error("a spool is left:", got)
	}
}

func TestABoxThatSendsBadArchivesWritesNothing(t *testing.T) {
	raw := func(heads ...tar.Header) func(context.Context, io.Writer) (int, error) {
		return func(_ context.Context, out io.Writer) (int, error) {
			a := tar.NewWriter(out)
			for _, h := range heads {
				if err := a.WriteHeader(&h); err != nil {
					return 0, err
				}
			}
			return 0, nil
		}
	}
	dir := tar.Header{Name: "0/", Typeflag: tar.TypeDir}
	for name, answer := range map[string]func(context.Context, io.Writer) (int, error){
		"upwards":  raw(dir, tar.Header{Name: "0/../../../x", Typeflag: tar.TypeReg}),
		"absolute": raw(tar.Header{Name: "/x", Typeflag: tar.TypeReg}),
		"a link":   raw(dir, tar.Header{Name: "0/l", Typeflag: tar.TypeSymlink, Linkname: "/"}),
		"dies in the middle": func(_ context.Context, out io.Writer) (int, error) {
			_ = tar.NewWriter(out).WriteHeader(&tar.Header{Name: "0", Typeflag: tar.TypeReg, Size: 100})
			_, _ = out.Write([]byte("half"))
			return 137, nil
		},
		"is gone":       func(context.Context, io.Writer) (int, error) { return 0, errors.New("no such container") },
		"packs nothing": func(context.Context, io.Writer) (int, error) { return 0, nil },
		"never ends": func(_ context.Context, out io.Writer) (int, error) {
			a := tar.NewWriter(out)
			for {
				if err := a.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}}); err != nil {
					return 0, err
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.spools.limit = rules.Limits{Entries: 10, Bytes: 1 << 10, Depth: 5}
			before := tree(t, filepath.Dir(w.outside))
			w.answer = answer
			_, err := w.prepare(t, "out")
			var r *relay.Refusal
			if !errors.As(err, &r) || r.Code != wire.ExitFailed {
				t.Error(err)
			}
			if err := os.RemoveAll(w.home.Box(w.box.ID)); err != nil {
				t.Fatal(err)
			}
			if after := tree(t, filepath.Dir(w.outside)); strings.ReplaceAll(after, " home/boxes", "") != before {
				t.Errorf("%s, before %s", after, before)
			}
		})
	}
}

func TestTheBoxIsNotWaitedForAfterTheDeadline(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.answer = func(ctx context.Context, _ io.Writer) (int, error) { cancel(); <-ctx.Done(); return 0, ctx.Err() }
	_, err := w.spools.pull(ctx, w.box, rules.Copy{Sources: []string{"a"}, Dest: "b"})
	if err == nil || tree(t, w.spools.inbox(w.box.ID)) != "." {
		t.Error(err)
	}
}

func TestAFolderThatBecomesALinkIsNotFollowed(t *testing.T) {
	w := newWorld(t)
	for name, to := range map[string]string{"inside": filepath.Join(".git", "hooks"), "outside": w.outside} {
		a, err := w.prepare(t, name+"/sub/pre-commit")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(w.project, name)); err != nil {
			t.Fatal(err)
		}
		if out := w.do(t, a); !out.Failed {
			t.Errorf("%s: %+v", name, out)
		}
	}
	if got := tree(t, filepath.Join(w.project, ".git")) + tree(t, w.outside); got != ". hooks." {
		t.Error(got)
	}
}

func TestASwappedFolderIsNeverFollowed(t *testing.T) {
	w := newWorld(t)
	out, link, real := filepath.Join(w.project, "out"), filepath.Join(w.project, "link"), filepath.Join(w.project, "real")
	if err := os.Mkdir(out, 0o755); err != nil { //nolint:gosec // a work tree
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(".git", "hooks"), link); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for ctx.Err() == nil {
			_, _, _, _ = os.Rename(out, real), os.Rename(link, out), os.Rename(out, link), os.Rename(real, out)
		}
	})
	for range 200 {
		if a, err := w.prepare(t, "out/pre-commit"); err == nil {
			if d := policy.Decide(a.Kind, a.Facts, safe); d.Verdict == policy.Allow {
				w.do(t, a)
			}
		}
	}
	cancel()
	swapping.Wait()
	if got := tree(t, filepath.Join(w.project, ".git")); got != ". hooks" {
		t.Error(got)
	}
}

func TestACopyThatFailsLeavesNothing(t *testing.T) {
	w := newWorld(t)
	if err := os.MkdirAll(filepath.Join(w.project, "b"), 0o755); err != nil { //nolint:gosec // a work tree
		t.Fatal(err)
	}
	w.sends(rules.Entry{Path: "0", Folder: true}, rules.Entry{Path: "0/x", Size: 1}, rules.Entry{Path: "1", Size: 1})
	a, err := w.prepare(t, "new/deep/", "/a", "/b")
	if err != nil {
		t.Fatal(err)
	}
	req := a.Request.(request)
	req.Targets[1] = filepath.Join(w.project, "b") // a folder where a file is to go
	spool, err := os.OpenRoot(onlySpool(t, w))
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close() //nolint:errcheck // only a handle
	if err := place(spool, req); !errors.Is(err, errInTheWay) {
		t.Error(err)
	}
	if got := tree(t, w.project); got != ". .git .git/hooks b" {
		t.Error(got)
	}
}

func onlySpool(t *testing.T, w *world) string {
	t.Helper()
	all, err := os.ReadDir(w.spools.inbox(w.box.ID))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return w.spools.path(w.box.ID, all[0].Name())
}

func TestTwoCopiesAtOnce(t *testing.T) {
	w := newWorld(t)
	var both sync.WaitGroup
	for _, dest := range []string{"a", "b"} {
		both.Go(func() {
			a, err := w.prepare(t, dest)
			if err != nil {
				t.Error(err)
				return
			}
			if out := w.do(t, a); out.Failed {
				t.Error(out)
			}
		})
	}
	both.Wait()
	if got := tree(t, w.project); got != ". .git .git/hooks a b" {
		t.Error(got)
	}
}

func TestTheSameCopyHasOneSpoolAndOldOnesGo(t *testing.T) {
	w := newWorld(t)
	first, err := w.prepare(t, "a")
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.prepare(t, "a")
	if err != nil || again.Request.(request).key() != first.Request.(request).key() {
		t.Fatal(again, err)
	}
	spool := onlySpool(t, w)
	old := time.Now().Add(-w.spools.kept - time.Hour)
	if err := os.Chtimes(spool, old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(spool+partial, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := NewToHost(w.home, w, 0); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, w.spools.inbox(w.box.ID)); got != "." {
		t.Error(got)
	}
	if out := w.do(t, first); !out.Failed || !strings.Contains(out.Envelope.Stderr, "ask again") {
		t.Error(out)
	}
	for _, dest := range []string{"a", "b", "c", "d", "e", "f"} {
		if _, err := w.prepare(t, dest); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := os.ReadDir(w.spools.inbox(w.box.ID)); len(all) != maxSpools {
		t.Error(all, err)
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	if err := os.Symlink("nowhere", filepath.Join(w.project, "dangling")); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		dest, source string
		code         int
	}{
		{"", "/a", wire.ExitBadRequest},
		{"out/", "/", wire.ExitBadRequest},
		{"out/", "..", wire.ExitBadRequest},
		{"dangling/x", "/a", wire.ExitRefused},
		{string(w.home) + "/state.json", "/a", wire.ExitRefused},
	} {
		_, err := w.prepare(t, row.dest, row.source)
		var r *relay.Refusal
		if !errors.As(err, &r) || r.Code != row.code {
			t.Errorf("%+v: %v", row, err)
		}
	}
	if out := w.Resume(t.Context(), relay.Call{Box: w.box, Body: bytes.TrimSpace([]byte(` {"base":"/","targets":["/x"],"content":""} `))}); !out.Failed {
		t.Error(out)
	}
}
