package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/ctl/control"
	"github.com/madarco/agentbox/ctl/landing"
	"github.com/madarco/agentbox/ctl/relayenv"
)

// box is a daemon with its files, and what a relay would be.
type box struct {
	t    *testing.T
	dir  string
	port string
	o    Options
	hup  chan os.Signal
	// log delivers the daemon's lines.
	log  chan string
	stop func() error
}

type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- strings.TrimSpace(string(p)); return len(p), nil }

func newBox(t *testing.T) *box {
	t.Helper()
	dir, err := os.MkdirTemp("", "d") // t.TempDir can exceed a socket path's room
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("AGENTBOX_RELAY_ENV_FILE", filepath.Join(dir, "relay.env"))
	for _, name := range []string{relayenv.URL, relayenv.Token, relayenv.HostURL} {
		t.Setenv(name, "")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	free.Close()
	t.Setenv("AGENTBOX_BOX_RELAY_PORT", port)
	b := &box{t: t, dir: dir, port: port, hup: make(chan os.Signal, 1), log: make(chan string, 100)}
	b.o = Options{
		Socket: filepath.Join(dir, "ctl.sock"), StateDir: filepath.Join(dir, "state"), Version: "test",
		Hangup: b.hup, Log: log.New(lines(b.log), "", 0),
	}
	return b
}

// start runs the daemon until stop or the end of the test.
func (b *box) start() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, b.o) }()
	var stopped atomic.Bool
	b.stop = func() error {
		if stopped.Swap(true) {
			return nil
		}
		cancel()
		return <-done
	}
	b.t.Cleanup(func() {
		if err := b.stop(); err != nil {
			b.t.Errorf("the daemon: %v", err)
		}
	})
	b.says("listening on " + b.o.Socket)
}

// says waits for a line of the daemon that holds text.
func (b *box) says(text string) {
	b.t.Helper()
	for line := range b.log {
		if strings.Contains(line, text) {
			return
		}
	}
}

func (b *box) status() (s Status) {
	b.t.Helper()
	if err := control.Call(b.t.Context(), b.o.Socket, control.Request{Op: control.Status}, &s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// reread makes the daemon read its files again. It has, once the second of two
// hangups was taken from the channel.
func (b *box) reread() {
	b.t.Helper()
	b.hup <- syscall.SIGHUP
	b.hup <- syscall.SIGHUP
	b.hup <- syscall.SIGHUP
}

func TestASecondDaemonStepsBack(t *testing.T) {
	b := newBox(t)
	b.start()
	for name, o := range map[string]Options{
		"same socket":       {Socket: b.o.Socket, StateDir: t.TempDir(), Log: b.o.Log},
		"same state folder": {Socket: b.o.Socket + "2", StateDir: b.o.StateDir, Log: b.o.Log},
	} {
		for range 5 {
			if err := Run(t.Context(), o); !errors.Is(err, ErrRunning) {
				t.Errorf("%s: Run = %v, want ErrRunning", name, err)
			}
		}
	}
	if err := control.Call(t.Context(), b.o.Socket, control.Request{Op: control.Ping}, nil); err != nil {
		t.Errorf("the first daemon was disturbed: %v", err)
	}
}

func TestTheSocketOfADeadDaemonIsReplaced(t *testing.T) {
	b := newBox(t)
	ln, err := net.Listen("unix", b.o.Socket)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()
	b.start()
	if s := b.status(); s.PID != os.Getpid() || s.Version != "test" {
		t.Errorf("status = %+v", s)
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(b.o.Socket); err == nil {
		t.Error("the socket outlives the daemon")
	}
}

func TestNothingListensWithoutARelayAndTheRestOfTheFilesComesLater(t *testing.T) {
	b := newBox(t)
	b.start()
	if s := b.status(); s.Relay.Listen != "" || len(s.Landing) != 0 {
		t.Errorf("status = %+v", s)
	}
	if conn, err := net.Dial("tcp", "127.0.0.1:"+b.port); err == nil {
		conn.Close()
		t.Error("something listens on the relay's port")
	}
	r := newRelay(t, b)
	b.reread()
	if s := b.status(); s.Relay.Listen != "127.0.0.1:"+b.port || len(s.Landing) != 1 || s.Landing[0].Branch != r.repo.Branches[0] {
		t.Errorf("status = %+v", s)
	}
	more := r.repo
	more.Branches = append(more.Branches, "sanctioned")
	r.list(more)
	b.reread()
	if s := b.status(); len(s.Landing) != 2 {
		t.Errorf("status = %+v", s)
	}
	r.list()
	b.reread()
	if s := b.status(); len(s.Landing) != 0 {
		t.Errorf("status = %+v", s)
	}
}

func TestATakenPortIsShownAndTriedAgain(t *testing.T) {
	b := newBox(t)
	newRelay(t, b)
	other, err := net.Listen("tcp", "127.0.0.1:"+b.port)
	if err != nil {
		t.Fatal(err)
	}
	b.start()
	if s := b.status(); s.Relay.Listen != "" || !strings.Contains(s.Relay.Problem, "in use") {
		t.Errorf("status = %+v", s.Relay)
	}
	other.Close()
	b.reread()
	if s := b.status(); s.Relay.Listen == "" || s.Relay.Problem != "" {
		t.Errorf("status = %+v", s.Relay)
	}
}

func TestCommitsGoThroughTheForwarderWithTheToken(t *testing.T) {
	b := newBox(t)
	r := newRelay(t, b)
	tip := r.commit()
	b.start()
	var states []landing.State
	if err := control.Call(t.Context(), b.o.Socket, control.Request{Op: control.Land}, &states); err != nil {
		t.Fatal(err)
	}
	if len(states) != 1 || states[0].Phase != landing.Landed || states[0].Landed != tip {
		t.Errorf("land = %+v", states)
	}
	// The next request bears the next token.
	r.token.Store("second")
	r.env()
	tip = r.commit()
	if err := control.Call(t.Context(), b.o.Socket, control.Request{Op: control.Land}, &states); err != nil {
		t.Fatal(err)
	}
	if states[0].Landed != tip {
		t.Errorf("land = %+v", states)
	}
}

func TestStoppingHandsInWhatIsLeft(t *testing.T) {
	b := newBox(t)
	r := newRelay(t, b)
	r.down.Store(true)
	b.start()
	tip := r.commit()
	var states []landing.State
	if err := control.Call(t.Context(), b.o.Socket, control.Request{Op: control.Land}, &states); err != nil {
		t.Fatal(err)
	}
	if states[0].Phase != landing.Pending {
		t.Fatalf("land = %+v", states)
	}
	r.down.Store(false)
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	if got := r.git("-C", r.gate, "rev-parse", "refs/agentbox/landing/agentbox/b"); got != string(tip) {
		t.Errorf("the relay has %s, want %s", got, tip)
	}
}

func TestRelayAddr(t *testing.T) {
	for port, want := range map[string]string{"": "127.0.0.1:8788", "9000": "127.0.0.1:9000", "0": "", "65536": "", "http": "", "-1": ""} {
		if got, ok := relayAddr(port); ok != (want != "") || ok && got != want {
			t.Errorf("relayAddr(%q) = %s, %v; want %q", port, got, ok, want)
		}
	}
}

// relay is a gate behind a Unix socket, and a repository in the box.
type relay struct {
	t          *testing.T
	b          *box
	gate, work string
	repo       landing.Repo
	token      atomic.Value
	down       atomic.Bool
}

func newRelay(t *testing.T, b *box) *relay {
	t.Helper()
	r := &relay{t: t, b: b, gate: filepath.Join(b.dir, "git", "k"), work: filepath.Join(b.dir, "work")}
	r.token.Store("first")
	r.git("init", "-q", "--bare", r.gate)
	r.git("-C", r.gate, "config", "http.receivepack", "true")
	r.git("init", "-q", "-b", "agentbox/b", r.work)
	path := r.git("--exec-path")
	backend := &cgi.Handler{
		Path: filepath.Join(path, "git-http-backend"), Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + b.dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=box", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"},
	}
	ln, err := net.Listen("unix", filepath.Join(b.dir, "relay.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch want := "Bearer " + r.token.Load().(string); {
		case r.down.Load():
			http.Error(w, "down", http.StatusServiceUnavailable)
		case req.Header.Get("Authorization") != want:
			http.Error(w, "wrong token", http.StatusUnauthorized)
		default:
			// CGI wants to know the length.
			body, err := io.ReadAll(req.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			req.Body, req.ContentLength, req.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
			backend.ServeHTTP(w, req)
		}
	})}
	go server.Serve(ln)
	t.Cleanup(func() { server.Close() })
	r.repo = landing.Repo{
		Key: "k", Path: core.BoxPath(r.work), Branches: []core.BranchName{"agentbox/b"},
		Endpoint: "http://127.0.0.1:" + b.port + "/git/k",
	}
	r.list(r.repo)
	r.env()
	return r
}

func (r *relay) list(repos ...landing.Repo) {
	r.t.Helper()
	if err := errors.Join(os.MkdirAll(r.b.o.StateDir, 0o755), landing.WriteList(r.b.o.StateDir, repos)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *relay) env() {
	r.t.Helper()
	err := relayenv.Write(relayenv.Path(), map[string]string{
		relayenv.HostURL: "unix://" + filepath.Join(r.b.dir, "relay.sock"), relayenv.Token: r.token.Load().(string),
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *relay) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *relay) commit() core.ObjectID {
	r.t.Helper()
	r.git("-C", r.work, "commit", "-q", "--allow-empty", "-m", "work")
	return core.ObjectID(r.git("-C", r.work, "rev-parse", "HEAD"))
}
