package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// network is a link to a namespace in which the box lives.
type network struct {
	t          *testing.T
	name, veth string
	host, box  string // addresses
}

// newNetwork makes one. It skips where that can't be, and fails there in CI.
func newNetwork(t *testing.T) *network {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	_, noIP := exec.LookPath("ip")
	_, noTables := exec.LookPath("iptables")
	if err := errors.Join(noIP, noTables); err != nil || os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatalf("a network of its own takes root, ip and iptables: %v", err)
		}
		t.Skipf("a network of its own takes root, ip and iptables: %v", err)
	}
	id := os.Getpid() % 10000
	net := rand.IntN(250)
	n := &network{
		t: t, name: fmt.Sprintf("abxb%d", id), veth: fmt.Sprintf("abxv%d", id),
		host: fmt.Sprintf("198.18.%d.1", net), box: fmt.Sprintf("198.18.%d.2", net), // RFC 2544: for tests of networks
	}
	n.run("ip", "netns", "add", n.name)
	t.Cleanup(func() { n.run("ip", "netns", "del", n.name) }) // and the link with it
	n.run("ip", "link", "add", n.veth, "type", "veth", "peer", "name", "eth0", "netns", n.name)
	n.run("ip", "addr", "add", n.host+"/30", "dev", n.veth)
	n.run("ip", "link", "set", n.veth, "up")
	n.inside("ip", "link", "set", "lo", "up")
	n.inside("ip", "addr", "add", n.box+"/30", "dev", "eth0")
	n.inside("ip", "link", "set", "eth0", "up")
	return n
}

func (n *network) run(argv ...string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.t.Context()), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		n.t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}

func (n *network) inside(argv ...string) {
	n.t.Helper()
	n.run(append([]string{"ip", "netns", "exec", n.name}, argv...)...)
}

// lossy drops a share of the packets each way.
func (n *network) lossy(share string) {
	for _, chain := range []string{"INPUT", "OUTPUT"} {
		dev := map[string]string{"INPUT": "-i", "OUTPUT": "-o"}[chain]
		n.inside("iptables", "-A", chain, dev, "eth0", "-m", "statistic", "--mode", "random", "--probability", share, "-j", "DROP")
	}
}

// partition cuts the link, and heal mends it.
func (n *network) partition() { n.run("ip", "link", "set", n.veth, "down") }
func (n *network) heal()      { n.run("ip", "link", "set", n.veth, "up") }

// proxy stands before the box as a provider's does, and misbehaves while
// troubled.
type proxy struct {
	*httptest.Server
	troubled atomic.Bool
	burst    atomic.Int64 // requests that are still to end with 504
	twice    atomic.Int64 // results that were said twice
	gaveUp   atomic.Int64
	mu       sync.Mutex
	rng      *rand.Rand
}

func newProxy(t *testing.T, to string, seed uint64) *proxy {
	t.Helper()
	p := &proxy{rng: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // guards nothing
	inner := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: to})
	inner.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.pass(inner, w, r) }))
	t.Cleanup(p.Close)
	return p
}

// chance tells how long to delay, and whether once in n comes true.
func (p *proxy) chance(n int) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.rng.IntN(40)) * time.Millisecond, p.rng.IntN(n) == 0
}

func (p *proxy) pass(inner http.Handler, w http.ResponseWriter, r *http.Request) {
	if !p.troubled.Load() {
		inner.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	delay, bad := p.chance(60)
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return
	}
	if bad {
		p.burst.Store(3)
	}
	if p.burst.Add(-1) >= 0 {
		p.gaveUp.Add(1)
		if delay%2 == 0 { // it arrived, and the answer is lost
			inner.ServeHTTP(httptest.NewRecorder(), r)
		}
		w.WriteHeader(http.StatusGatewayTimeout)
		return
	}
	if r.URL.Path == "/bridge/action-result" && delay < 10*time.Millisecond {
		p.twice.Add(1)
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		inner.ServeHTTP(httptest.NewRecorder(), again)
	}
	inner.ServeHTTP(w, r)
}
