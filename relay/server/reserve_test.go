package server

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/client"
	"github.com/madarco/agentbox/relay/store"
)

// userSocket serves the operator's socket as the daemon does.
func (g *rig) userSocket() *client.Client {
	g.t.Helper()
	if err := os.MkdirAll(filepath.Dir(g.cfg.Home.OperatorSocket()), 0o700); err != nil {
		g.t.Fatal(err)
	}
	l, err := net.Listen("unix", g.cfg.Home.OperatorSocket())
	if err != nil {
		g.t.Fatal(err)
	}
	srv := NewHTTPServer(g.Context(), g.OperatorHandler(), slog.New(slog.DiscardHandler))
	srv.ConnContext = WithPeer
	go func() { _ = srv.Serve(l) }()
	c := client.New(g.cfg.Home)
	g.t.Cleanup(func() { c.Close(); _ = srv.Close() })
	return c
}

// TestTheUserIsServedWhileBoxesUseAllTheyMay: with every connection, question and
// byte of disk taken, the user can still list, deny and destroy.
func TestTheUserIsServedWhileBoxesUseAllTheyMay(t *testing.T) {
	g := newRig(t, withLabelled, func(c *Config) { c.Home = shortHome(t) })
	g.crowd = make(crowd, 3)
	other := testBox("b00000002")
	if _, err := g.store.RegisterBox(t.Context(), other, store.HashToken(strings.Repeat("o", 64))); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{g.box.ID, other.ID} {
		if err := g.OpenChannel(testBox(id)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxPending {
		g.close(g.token, g.box.ID, fmt.Sprint(i), true)
	}
	connect := func(id string) net.Conn {
		conn, err := net.Dial("unix", g.cfg.Home.RelaySocket(id))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	held := []net.Conn{connect(g.box.ID), connect(g.box.ID), connect(other.ID)}
	for _, conn := range held { // has the relay's attention
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: relay\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := connect(other.ID).Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("a connection beyond what all boxes may have was served")
	}
	user := g.userSocket()
	if err := g.HoldRoom(); err != nil {
		t.Fatal(err)
	}
	g.disk.Free = func(string) (int64, error) { return 0, nil }
	g.disk.Reserve = 1 << 30

	u := policy.RefUpdate{Ref: "refs/heads/agentbox/one", Old: zero, New: oidB}
	if env, _, err := g.push(t.Context(), g.order(u), silent); err != nil || env.ExitCode != wire.ExitRefused || !strings.Contains(env.Stderr, "disk") {
		t.Errorf("a box's push on a full disk: %+v, %v", env, err)
	}
	all, err := user.Approvals(t.Context(), "")
	if err != nil || len(all) != maxPending {
		t.Fatalf("list: %d, %v", len(all), err)
	}
	if _, err := user.Answer(t.Context(), wire.Answer{ID: all[0].ID, Answer: "n", Digest: all[0].Digest}); err != nil {
		t.Errorf("deny: %v", err)
	}
	if _, err := os.Stat(g.ballast.Path); err == nil {
		t.Error("the room for the user is still taken")
	}
	if regs, err := user.Registry(t.Context()); err != nil || len(regs) != 2 {
		t.Errorf("registry: %v, %v", regs, err)
	}
	if err := user.Forget(t.Context(), g.box.ID); err != nil {
		t.Errorf("forget: %v", err)
	}
	entries, err := g.store.Audit(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	program, _ := os.Executable() // "" where the platform tells no peer's program
	me := fmt.Sprintf("operator uid=%d pid=%d", os.Getuid(), os.Getpid())
	found := false
	for _, e := range entries {
		found = found || e.Action == "box.forget" && e.BoxID == g.box.ID && (e.Actor == me || e.Actor == me+fmt.Sprintf(" program=%q", program))
	}
	if !found {
		t.Error("the removal is not written down")
	}
}

// TestDescriptorsStayForTheUser, however few or many the process may have.
func TestDescriptorsStayForTheUser(t *testing.T) {
	for files, want := range map[uint64]int{0: 64, 256: 64, 1024: 192, 1 << 20: 16384, 1<<64 - 1: 16384} {
		if got := cap(newCrowd(files)); got != want {
			t.Errorf("of %d files boxes may have %d connections; want %d", files, got, want)
		}
	}
	if openFiles() == 0 {
		t.Error("the limit of this process is not known")
	}
}
