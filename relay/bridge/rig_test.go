package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/madarco/agentbox/core/wire"
)

const boxID = "b00000001"

var (
	ownToken  = strings.Repeat("o", 64)
	hostToken = strings.Repeat("h", 64)
	link      = wire.BridgeLink{PreviewURL: "http://127.0.0.1:1", BridgeToken: hostToken}
)

func newBox(t *testing.T) *Box {
	t.Helper()
	b, err := NewBox(BoxConfig{BoxID: boxID, BoxToken: ownToken, BridgeToken: hostToken})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// call asks a handler as somebody at an address with a token.
func call(ctx context.Context, h http.Handler, from, token, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.RemoteAddr = from
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// rpc asks as the box's own tool and gives the exit code, -1 for no answer.
func rpc(ctx context.Context, b *Box, id, method string) (code int, out string) {
	body, _ := json.Marshal(wire.Request{RequestID: id, Method: method})
	w := call(ctx, b.Handler(), "127.0.0.1:9", ownToken, http.MethodPost, "/rpc", string(body))
	var e struct {
		ExitCode       *int
		Stdout, Stderr string
	}
	if json.Unmarshal(w.Body.Bytes(), &e) != nil || e.ExitCode == nil {
		return -1, w.Body.String()
	}
	return *e.ExitCode, e.Stdout + e.Stderr
}

// wireTo is a network of one box, without sockets, so that time can be false.
// before is asked for each request and may fail it, or answer it.
type wireTo struct {
	mu       sync.Mutex
	box      *Box
	before   func(*http.Request) (int, error)
	after    func(*http.Request) error
	requests map[string]int
	links    map[string]bool
}

func (n *wireTo) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	if n.requests == nil {
		n.requests, n.links = map[string]int{}, map[string]bool{}
	}
	n.requests[r.URL.Path]++
	n.links[r.URL.Host] = true
	box, before, after := n.box, n.before, n.after
	n.mu.Unlock()
	if before != nil {
		if code, err := before(r); err != nil {
			return nil, err
		} else if code != 0 {
			return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("no"))}, nil
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	in := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.RequestURI(), bytes.NewReader(body))
	in.Header, in.RemoteAddr = r.Header, "203.0.113.5:9"
	w := httptest.NewRecorder()
	box.Handler().ServeHTTP(w, in)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if after != nil {
		if err := after(r); err != nil {
			return nil, err
		}
	}
	return w.Result(), nil
}

func (n *wireTo) count(path string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.requests[path]
}

func (n *wireTo) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

var errReset = &net.OpError{Op: "read", Err: syscall.ECONNRESET}

// brain is a Host that remembers what it was asked.
type brain struct {
	mu     sync.Mutex
	acts   []string // request ids
	posts  []wire.PostEvent
	act    func(context.Context, wire.Request) wire.Envelope
	refuse error
}

func (h *brain) Act(ctx context.Context, _ string, req wire.Request) wire.Envelope {
	h.mu.Lock()
	h.acts = append(h.acts, req.RequestID)
	act := h.act
	h.mu.Unlock()
	if act != nil {
		return act(ctx, req)
	}
	return wire.Envelope{Stdout: "did " + req.RequestID}
}

func (h *brain) Serial(_ context.Context, _ string, req wire.Request) string {
	if repo, ok := strings.CutPrefix(req.Method, "in."); ok {
		return repo
	}
	return ""
}

func (h *brain) Post(_ context.Context, _ string, e wire.PostEvent) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse != nil {
		return h.refuse
	}
	h.posts = append(h.posts, e)
	return nil
}

func (h *brain) done() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.acts...)
}

func (h *brain) heard() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, e := range h.posts {
		all = append(all, e.Type+string(e.Payload))
	}
	return all
}

// rig is a box, a host and what lies between, in false time.
type rig struct {
	t     *testing.T
	net   *wireTo
	host  *brain
	cfg   PollerConfig
	saved Cursor
	stop  func()
}

// inRig runs test in a bubble of false time with a poller at work.
func inRig(t *testing.T, test func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, net: &wireTo{box: newBox(t)}, host: &brain{}}
		r.cfg = PollerConfig{BoxID: boxID, Link: link, Host: r.host, Transport: r.net}
		r.start()
		defer func() { r.stop() }()
		test(t, r)
	})
}

func (r *rig) start() {
	r.cfg.Cursor = r.saved
	r.cfg.Save = func(c Cursor) error { r.saved = c; return nil }
	p := NewPoller(r.cfg)
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	r.stop = func() { cancel(); <-done }
	synctest.Wait()
}

func (r *rig) post(kind, payload string) {
	r.t.Helper()
	if _, err := r.net.box.post(wire.PostEvent{Type: kind, Payload: json.RawMessage(payload)}); err != nil {
		r.t.Fatal(err)
	}
}

// ask is a tool of the box in its own goroutine.
func (r *rig) ask(ctx context.Context, id, method string) <-chan int {
	code := make(chan int, 1)
	box := r.net.box
	go func() {
		c, _ := rpc(ctx, box, id, method)
		code <- c
	}()
	synctest.Wait()
	return code
}

var errKept = errors.New("the disk is full")
