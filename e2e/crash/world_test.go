package crash

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/e2e/gitremote"
	"github.com/madarco/agentbox/relay/client"
	"github.com/madarco/agentbox/relay/daemon"
	"github.com/madarco/agentbox/relay/gitgate"
)

// homeVariable makes this test program a relay that serves the home it names.
const homeVariable = "AGENTBOX_CRASH_HOME"

func TestMain(m *testing.M) {
	home := os.Getenv(homeVariable)
	if home == "" {
		os.Exit(m.Run())
	}
	err := daemon.Serve(context.Background(), daemon.Config{
		Home: core.Home(home), Version: "crash", Ready: func() { fmt.Println("ready") },
		Policy: policy.Settings{Safe: true}, // as the user's configuration has it
	})
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

const (
	repository = "project.git"
	own        = "refs/heads/agentbox/one"
	// limit bounds whatever is waited for.
	limit = time.Minute
)

// world is a user with a remote, a relay that can be killed, and a box's clone.
type world struct {
	t         testing.TB
	home      core.Home
	remote    *gitremote.Remote
	user, box string // folders
	env       []string
	boxID     string
	channel   string // the address of the box's channel, behind its forwarder
	operator  *client.Client
	relay     *exec.Cmd
}

func newWorld(t testing.TB) *world {
	t.Helper()
	root, err := os.MkdirTemp("", "abx") // a socket's path has little room
	must(t, err)
	w := &world{t: t, home: core.Home(filepath.Join(root, "h")), user: filepath.Join(root, "user"), box: filepath.Join(root, "box")}
	w.operator = client.New(w.home)
	w.env = append(os.Environ(), "HOME="+root, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	t.Cleanup(func() {
		w.kill()
		w.operator.Close()
		_ = os.RemoveAll(root)
	})
	w.serveRemote(filepath.Join(root, "remote"))
	w.start()
	token := core.NewToken()
	box := w.record()
	must(t, w.operator.Register(t.Context(), wire.RegisterBox{Box: box, Token: token}))
	w.channel = w.forward(w.home.RelaySocket(box.ID), token)
	w.git(root, "clone", "-q", w.channel+"/git/"+box.Repos[0].Key, w.box)
	w.git(w.box, "checkout", "-q", "-b", "agentbox/one")
	must(t, w.remote.Hook(repository, "pre-receive", "sleep 0.2"))
	return w
}

// serveRemote makes the remote, and the user's repository that pushes to it
// with a password.
func (w *world) serveRemote(root string) {
	w.t.Helper()
	w.remote = gitremote.New(gitremote.Options{Root: root, User: "dev", Password: "secret"})
	must(w.t, w.remote.Create(w.t.Context(), repository))
	server := httptest.NewServer(w.remote)
	w.t.Cleanup(func() {
		server.Close()
		w.remote.Close()
	})
	w.git("/", "init", "-q", "-b", "main", w.user)
	store := w.user + ".credentials"
	must(w.t, os.WriteFile(store, []byte(strings.Replace(server.URL, "://", "://dev:secret@", 1)+"\n"), 0o600))
	w.git(w.user, "config", "credential.helper", "store --file="+store)
	w.git(w.user, "remote", "add", "origin", server.URL+"/"+repository)
	w.git(w.user, "commit", "-q", "--allow-empty", "-m", "first")
	w.git(w.user, "push", "-q", "-u", "origin", "main")
	w.git(w.user, "remote", "set-head", "origin", "main")
}

// record is the box as a create would write it down.
func (w *world) record() core.Box {
	w.t.Helper()
	gates, err := gitgate.New(w.home, gitgate.Options{})
	must(w.t, err)
	repo, err := gates.Open(w.t.Context(), w.user)
	must(w.t, err)
	must(w.t, gates.RefreshSeed(w.t.Context(), repo))
	record := repo.Record("agentbox/one")
	record.Kind, record.BoxPath = "root", core.WorkspacePath
	w.boxID = core.NewBoxID()
	return core.Box{ID: w.boxID, Name: "one", Repos: []core.Repo{record}}
}

// start starts the relay and returns once it serves; that is within the limit,
// whatever the one before was doing when it was killed.
func (w *world) start() time.Duration {
	w.t.Helper()
	begin := time.Now()
	self, err := os.Executable()
	must(w.t, err)
	w.relay = exec.Command(self)
	w.relay.Env = append(w.env, homeVariable+"="+string(w.home))
	w.relay.Stderr = os.Stderr
	out, err := w.relay.StdoutPipe()
	must(w.t, err)
	must(w.t, w.relay.Start())
	late := time.AfterFunc(limit, func() { _ = w.relay.Process.Kill() })
	defer late.Stop()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		w.t.Fatalf("the relay does not come up: %q, %v", line, err)
	}
	return time.Since(begin)
}

// kill ends the relay as a crash does: it gets to do nothing, and its children
// go on.
func (w *world) kill() {
	if w.relay != nil {
		_ = w.relay.Process.Kill()
		_ = w.relay.Wait()
	}
}

// forward does what the daemon in a box does: it adds the token.
func (w *world) forward(socket, token string) string {
	w.t.Helper()
	srv := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "relay"
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}},
	})
	w.t.Cleanup(srv.Close)
	return srv.URL
}

func (w *world) command(dir string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	context.AfterFunc(ctx, cancel)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = dir, w.env
	return cmd
}

func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	out, err := w.command(dir, args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// push pushes HEAD as an agent would, and as the user says yes to what is asked.
func (w *world) push(ref string) (output string, err error) {
	w.t.Helper()
	cmd := w.command(w.box, "push", "origin", "HEAD:"+ref)
	stderr, err := cmd.StderrPipe()
	must(w.t, err)
	must(w.t, cmd.Start())
	var out strings.Builder
	lines := bufio.NewScanner(io.TeeReader(stderr, &out))
	for lines.Scan() {
		if _, id, ok := strings.Cut(lines.Text(), "agentbox agent approve "); ok {
			w.approve(strings.TrimSpace(id))
		}
	}
	err = cmd.Wait()
	return out.String(), err
}

// approve answers a question. The relay may be gone at this moment; the next
// attempt asks again then.
func (w *world) approve(id string) {
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	open, err := w.operator.Approvals(ctx, w.boxID)
	if err != nil {
		return
	}
	for _, a := range open {
		if a.ID == id && a.State == wire.Pending {
			_, _ = w.operator.Answer(ctx, wire.Answer{ID: id, Answer: "y", Digest: a.Digest})
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
