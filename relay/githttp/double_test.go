package githttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/githttp"
)

// bare serves a bare repository with the real git, in place of a gate.
type bare struct {
	dir     string
	format  string
	shallow []core.ObjectID
	// refuse gives a reason for updates that are to be refused after the pack.
	refuse func(policy.RefUpdate) string
	// hold runs before a push is carried out.
	hold func(ctx context.Context, say func(string)) error
	// refreshErr fails every fetch.
	refreshErr error

	mu     sync.Mutex
	pushes []githttp.Push
	served []string
}

func (b *bare) ObjectFormat() string { return b.format }

func (b *bare) Refresh(context.Context) error { return b.refreshErr }

func (b *bare) Refs(ctx context.Context, _ bool) (relay.Refs, error) {
	out, err := exec.CommandContext(ctx, "git", "-C", b.dir, "for-each-ref", "--format=%(objectname) %(refname) %(*objectname)").Output()
	if err != nil {
		return relay.Refs{}, err
	}
	refs := relay.Refs{Head: "refs/heads/main", Shallow: b.shallow}
	for line := range strings.Lines(string(out)) {
		f := append(strings.Fields(line), "")
		refs.List = append(refs.List, relay.Ref{OID: core.ObjectID(f[0]), Name: f[1], Peeled: core.ObjectID(f[2])})
	}
	return refs, nil
}

func (b *bare) Serve(ctx context.Context, protocol string, body io.Reader, out io.Writer) error {
	b.mu.Lock()
	b.served = append(b.served, protocol)
	b.mu.Unlock()
	cmd := exec.CommandContext(ctx, "git", "upload-pack", "--stateless-rpc", b.dir)
	cmd.Env = append(os.Environ(), "GIT_PROTOCOL="+protocol)
	cmd.Stdin, cmd.Stdout = body, out
	return cmd.Run()
}

func (b *bare) Check(u policy.RefUpdate) string {
	if d := policy.CheckRef(u); d.Verdict == policy.Deny {
		return d.Reason
	}
	return ""
}

func (b *bare) Receive(ctx context.Context, push githttp.Push, say func(string)) ([]githttp.Result, error) {
	b.mu.Lock()
	b.pushes = append(b.pushes, push)
	b.mu.Unlock()
	cmd := exec.CommandContext(ctx, "git", "-C", b.dir, "index-pack", "--stdin", "--fix-thin")
	cmd.Stdin = push.Pack
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("index-pack: %s", out)
	}
	if b.hold != nil {
		if err := b.hold(ctx, say); err != nil {
			return nil, err
		}
	}
	results := make([]githttp.Result, len(push.Updates))
	for i, u := range push.Updates {
		if b.refuse != nil {
			if results[i].Reason = b.refuse(u); results[i].Reason != "" {
				continue
			}
		}
		if out, err := exec.CommandContext(ctx, "git", "-C", b.dir, "update-ref", u.Ref, string(u.New), string(u.Old)).CombinedOutput(); err != nil {
			results[i].Reason = string(out)
		}
	}
	return results, nil
}

// rig is a remote with some history, served to the clients of one test.
type rig struct {
	t      *testing.T
	repo   *bare
	url    string
	client string // a clone
	env    []string
}

// newRig serves a fresh copy of the template; change adjusts what serves it.
func newRig(t *testing.T, format string, change ...func(*bare)) *rig {
	t.Helper()
	t.Parallel()
	root := t.TempDir()
	g := &rig{t: t, client: filepath.Join(root, "client")}
	g.env = append(os.Environ(), "HOME="+root, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "LC_ALL=C")
	g.repo = &bare{dir: filepath.Join(root, "remote.git"), format: format}
	if err := os.CopyFS(g.repo.dir, os.DirFS(g.template(format))); err != nil {
		t.Fatal(err)
	}

	for _, c := range change {
		c(g.repo)
	}
	e := &githttp.Endpoint{Repo: g.repo, MaxPack: 8 << 20}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /git/k/info/refs", e.InfoRefs)
	mux.HandleFunc("POST /git/k/git-receive-pack", e.ReceivePack)
	mux.HandleFunc("POST /git/k/git-upload-pack", e.UploadPack)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	g.url = srv.URL + "/git/k"
	return g
}

var templates sync.Map // object format -> func() string

// template is a remote with three commits and a tag, made once per format.
func (g *rig) template(format string) string {
	build, _ := templates.LoadOrStore(format, sync.OnceValue(func() string {
		root, err := os.MkdirTemp("", "githttp-")
		if err != nil {
			g.t.Fatal(err)
		}
		remote, work := filepath.Join(root, "remote.git"), filepath.Join(root, "work")
		g.git(root, "init", "-q", "--bare", "-b", "main", "--template=", "--object-format="+format, remote)
		g.git(remote, "config", "uploadpack.allowAnySHA1InWant", "true")
		g.git(root, "init", "-q", "-b", "main", "--object-format="+format, work)
		for i := range 3 {
			g.commit(work, fmt.Sprintf("file %d", i))
		}
		g.git(work, "tag", "-a", "-m", "one", "v1")
		g.git(work, "push", "-q", remote, "main", "v1")
		return remote
	}))
	return build.(func() string)()
}

func TestMain(m *testing.M) {
	code := m.Run()
	templates.Range(func(_, build any) bool {
		os.RemoveAll(filepath.Dir(build.(func() string)()))
		return true
	})
	os.Exit(code)
}

func (g *rig) cmd(dir string, args ...string) *exec.Cmd {
	c := exec.Command("git", args...)
	c.Dir, c.Env = dir, g.env
	return c
}

// git runs git and returns its output; it must succeed.
func (g *rig) git(dir string, args ...string) string {
	g.t.Helper()
	out, err := g.cmd(dir, args...).CombinedOutput()
	if err != nil {
		g.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// fails runs git, which must fail, and returns its output.
func (g *rig) fails(dir string, args ...string) string {
	g.t.Helper()
	out, err := g.cmd(dir, args...).CombinedOutput()
	if err == nil {
		g.t.Fatalf("git %v succeeded:\n%s", args, out)
	}
	return string(out)
}

func (g *rig) commit(dir, text string) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644); err != nil {
		g.t.Fatal(err)
	}
	g.git(dir, "add", "file")
	g.git(dir, "commit", "-q", "-m", text)
}

// clone makes the client's clone, on the box's branch with a commit of its own.
func (g *rig) clone(args ...string) {
	g.t.Helper()
	g.git(filepath.Dir(g.client), append(append([]string{"clone", "-q"}, args...), g.url, g.client)...)
	g.git(g.client, "checkout", "-q", "-b", "agentbox/one")
	g.commit(g.client, "from the box")
}

// refs shows every ref of the remote.
func (g *rig) refs() string { return g.git(g.repo.dir, "for-each-ref") }

func (g *rig) tip(dir, rev string) string { return g.git(dir, "rev-parse", rev) }
