package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/memory"
)

const (
	repoKey   = "0123456789abcdef"
	remoteURL = "https://git.example.com/acme/shop.git"
)

var (
	zero = core.ZeroID(40)
	oidA = core.ObjectID(strings.Repeat("a", 40))
	oidB = core.ObjectID(strings.Repeat("b", 40))
	oidC = core.ObjectID(strings.Repeat("c", 40))
)

// fakeGate does nothing and remembers what it was asked.
type fakeGate struct {
	mu      sync.Mutex
	url     string
	refs    []relay.Ref
	facts   policy.Facts
	pushes  []relay.PushRequest
	lands   []core.ObjectID
	fetches int
	// onPush answers a push, success if nil; it runs between started and the
	// result.
	onPush  func(context.Context, relay.PushRequest) (relay.PushResult, error)
	landed  wire.Landing
	landErr error
	kept    []wire.Landing
	agreed  []bool
	// pid is the child that a push says it has, this process if 0.
	pid int
}

func (g *fakeGate) Gate(context.Context, core.Box, core.Repo) (relay.Gate, error) { return g, nil }
func (g *fakeGate) ObjectFormat() string                                          { return "sha1" }
func (g *fakeGate) RemoteURL(context.Context) (string, error)                     { return g.url, nil }

func (g *fakeGate) Refs(context.Context, bool) (relay.Refs, error) {
	return relay.Refs{List: g.refs}, nil
}

func (g *fakeGate) Import(_ context.Context, pack io.Reader, _ []policy.RefUpdate) error {
	if pack == nil {
		return nil
	}
	_, err := io.Copy(io.Discard, pack)
	return err
}

func (g *fakeGate) Facts(context.Context, policy.RefUpdate) (policy.Facts, error) {
	return g.facts, nil
}

func (g *fakeGate) Serve(context.Context, string, io.Reader, io.Writer) error {
	return errors.New("not served here")
}

func (g *fakeGate) Refresh(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fetches++
	return nil
}

func (g *fakeGate) Land(_ context.Context, r relay.LandRequest) (wire.Landing, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lands = append(g.lands, r.Tip)
	g.agreed = append(g.agreed, r.Agreed)
	l := g.landed
	l.Branch, l.New = r.Branch, r.Tip
	if l.Status == "" || r.Agreed {
		l.Status = wire.Landed
	}
	return l, g.landErr
}

func (g *fakeGate) Look(_ context.Context, b core.BranchName, tip core.ObjectID) (wire.Landing, error) {
	l := g.landed
	l.Branch, l.New = b, tip
	return l, nil
}

func (g *fakeGate) Kept(context.Context) ([]wire.Landing, error) { return g.kept, nil }

func (g *fakeGate) Push(ctx context.Context, req relay.PushRequest, started func(int) error) (relay.PushResult, error) {
	pid := g.pid
	if pid == 0 {
		pid = os.Getpid()
	}
	if err := started(pid); err != nil {
		return relay.PushResult{}, err
	}
	g.mu.Lock()
	g.pushes = append(g.pushes, req)
	onPush := g.onPush
	g.mu.Unlock()
	if onPush != nil {
		return onPush(ctx, req)
	}
	return took(req), nil
}

func took(req relay.PushRequest) relay.PushResult {
	var r relay.PushResult
	for _, u := range req.Updates {
		r.Refs = append(r.Refs, relay.PushedRef{Ref: u.Ref, Status: ' '})
	}
	return r
}

func (g *fakeGate) pushed() []relay.PushRequest {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]relay.PushRequest(nil), g.pushes...)
}

// rig is a server over the memory store, without sockets.
type rig struct {
	*Server
	t     *testing.T
	gate  *fakeGate
	store *memory.Store
	box   core.Box
	token string
}

func testBox(id string) core.Box {
	return core.Box{ID: id, Name: "one", Repos: []core.Repo{{
		Key: repoKey, Kind: "root", CommonDir: "/user/shop/.git", WorkTree: "/user/shop", BoxPath: core.WorkspacePath,
		Branch: "agentbox/one", BaseBranch: "main", Remote: "origin", RemoteURL: remoteURL, DefaultBranch: "main", ObjectFormat: "sha1",
	}}}
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	g := &rig{t: t, store: memory.New(memory.Options{}), box: testBox("b00000001"), token: strings.Repeat("t", 64)}
	g.gate = &fakeGate{url: remoteURL, facts: policy.Facts{FastForward: true, Commits: 2, Files: 3}}
	g.gate.refs = []relay.Ref{{Name: "refs/heads/main", OID: oidA}, {Name: wire.LandingPrefix + "agentbox/one", OID: oidB}}
	cfg := Config{Home: core.Home(t.TempDir()), Store: g.store, Gates: g.gate, Version: "v1", Policy: policy.Settings{Safe: true}, Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	g.Server = New(cfg)
	t.Cleanup(func() {
		g.Close(t.Context())
		_ = g.store.Close()
	})
	if _, err := g.store.RegisterBox(t.Context(), g.box, store.HashToken(g.token)); err != nil {
		t.Fatal(err)
	}
	return g
}

// order is a push of one update whose commits are in the gate.
func (g *rig) order(updates ...policy.RefUpdate) order {
	return order{box: g.box, repo: g.box.Repos[0], gate: g.gate, updates: updates}
}

var toMain = policy.RefUpdate{Ref: "refs/heads/main", Old: oidA, New: oidB}

// pending waits until the box has a question, and returns it.
func (g *rig) pending() store.Approval {
	g.t.Helper()
	for {
		changed, stop := g.store.Watch(store.PendingTopic)
		list, err := g.store.Approvals(g.t.Context(), g.box.ID, wire.Pending)
		if err != nil {
			g.t.Fatal(err)
		}
		if len(list) > 0 {
			stop()
			return list[0]
		}
		<-changed
		stop()
	}
}

func (g *rig) answer(id string, yes bool, note string) {
	g.t.Helper()
	if _, err := g.store.AnswerApproval(g.t.Context(), id, store.Reply{Yes: yes, By: "operator uid=0 pid=1", Note: note}); err != nil {
		g.t.Fatal(err)
	}
}

// actions lists the audit log.
func (g *rig) actions() []string {
	g.t.Helper()
	entries, err := g.store.Audit(g.t.Context(), 0, 1000)
	if err != nil {
		g.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Actor+" "+e.Action)
	}
	return out
}

// rpc sends one RPC over the box's channel.
func (g *rig) rpc(method string, params any) (int, wire.Envelope) {
	g.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		g.t.Fatal(err)
	}
	body, err := json.Marshal(wire.Request{Method: method, Params: raw})
	if err != nil {
		g.t.Fatal(err)
	}
	w := g.do("POST", "/rpc", string(body))
	var env wire.Envelope
	_ = json.Unmarshal(w.Body.Bytes(), &env)
	return w.Code, env
}

// do sends a request over the box's channel with its token.
func (g *rig) do(method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body)).WithContext(g.t.Context())
	r.Header.Set("Authorization", "Bearer "+g.token)
	w := httptest.NewRecorder()
	g.BoxHandler(g.box.ID).ServeHTTP(w, r)
	return w
}

// operate sends a request as the user.
func (g *rig) operate(method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r = r.WithContext(context.WithValue(g.t.Context(), peerKey{}, Peer{UID: 1, PID: 2}))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	g.OperatorHandler().ServeHTTP(w, r)
	return w
}

// dial is an HTTP client of a Unix socket.
func dial(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
}

// shortHome is a home whose socket paths fit.
func shortHome(t *testing.T) core.Home {
	t.Helper()
	dir, err := os.MkdirTemp("", "abx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return core.Home(filepath.Join(dir, "h"))
}
