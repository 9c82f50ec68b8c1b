package forwarder

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// start runs a forwarder in front of a relay on a Unix socket, and returns the
// forwarder's address.
func start(t *testing.T, relay http.HandlerFunc) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fwd") // t.TempDir can exceed a socket path's room
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "relay.sock")
	upstream, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: relay}
	go server.Serve(upstream)
	t.Cleanup(func() { server.Close() })
	return forward(t, "unix://"+socket)
}

func forward(t *testing.T, hostURL string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, ln, New(func() (string, string) { return hostURL, "tok" }), 10*time.Millisecond)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return "http://" + ln.Addr().String()
}

// client is like git's and our tools': it follows no redirect either, so that
// a test sees what the forwarder answers.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func do(t *testing.T, method, url string, body io.Reader, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

func TestTheTokenIsAddedToGitRequestsAlone(t *testing.T) {
	base := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		io.WriteString(w, strings.Join([]string{
			r.Method, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("Cookie"),
			r.Header.Get("X-Forwarded-For"), r.Header.Get("Git-Protocol"), string(body),
		}, "|"))
	})
	for _, c := range []struct{ method, target, body, want string }{
		{"POST", "/rpc?drop=1", "{}", "POST|/rpc|Bearer own|||version=2|{}"},
		{"GET", "/rpc/status/p1", "", "GET|/rpc/status/p1|Bearer own|||version=2|"},
		{"POST", "/events", "{}", "POST|/events|Bearer own|||version=2|{}"},
		{"GET", "/git/k/info/refs?service=git-upload-pack", "", "GET|/git/k/info/refs?service=git-upload-pack|Bearer tok|||version=2|"},
		{"POST", "/git/k/git-receive-pack", "PACK", "POST|/git/k/git-receive-pack|Bearer tok|||version=2|PACK"},
	} {
		_, got := do(t, c.method, base+c.target, strings.NewReader(c.body),
			"Authorization", "Bearer own", "Cookie", "a=b", "X-Forwarded-For", "10.0.0.1", "Git-Protocol", "version=2")
		if got != c.want {
			t.Errorf("%s %s reached the relay as %q, want %q", c.method, c.target, got, c.want)
		}
	}
}

func TestRefusedRequestsNeverReachTheRelay(t *testing.T) {
	base := start(t, func(http.ResponseWriter, *http.Request) { t.Error("a refused request reached the relay") })
	if res, _ := do(t, "GET", base+"/admin/registry", nil); res.StatusCode != http.StatusNotFound {
		t.Errorf("/admin/registry = %s, want 404", res.Status)
	}
	if res, _ := do(t, "POST", base+"/git/k/git-receive-pack", nil, "Origin", "http://evil.example"); res.StatusCode != http.StatusForbidden {
		t.Errorf("a page's push = %s, want 403", res.Status)
	}
}

func TestRedirectsAndUpgradesAreNotFollowed(t *testing.T) {
	base := start(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Upgrade"); got != "" {
			t.Errorf("Upgrade: %s reached the relay", got)
		}
		w.Header().Set("Location", "http://elsewhere.example/steal")
		w.WriteHeader(http.StatusFound)
	})
	res, _ := do(t, "GET", base+"/git/k/info/refs", nil, "Upgrade", "websocket", "Connection", "Upgrade")
	if res.StatusCode != http.StatusFound {
		t.Errorf("status = %s, want the relay's own 302", res.Status)
	}
}

func TestProgressArrivesWhileThePackIsStillBeingSent(t *testing.T) {
	base := start(t, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		in := bufio.NewReader(r.Body)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			io.WriteString(w, "got "+line)
			w.(http.Flusher).Flush()
		}
	})
	body, pack := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", base+"/git/k/git-receive-pack", body)
	if err != nil {
		t.Fatal(err)
	}
	go io.WriteString(pack, "one\n")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	out := bufio.NewReader(res.Body)
	for _, next := range []string{"two\n", "three\n", ""} {
		if line, err := out.ReadString('\n'); !strings.HasPrefix(line, "got ") {
			t.Fatalf("answer %q, %v while the request is open", line, err)
		}
		if next == "" {
			pack.Close()
			break
		}
		if _, err := io.WriteString(pack, next); err != nil {
			t.Fatal(err)
		}
	}
	if rest, err := io.ReadAll(out); err != nil || len(rest) != 0 {
		t.Errorf("after the end %q, %v", rest, err)
	}
}

func TestALargePackPassesWithoutBeingCollected(t *testing.T) {
	const size = 256 << 20
	base := start(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if n != size || err != nil {
			t.Errorf("the relay read %d bytes, %v", n, err)
		}
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do(t, "POST", base+"/git/k/git-receive-pack", io.LimitReader(zeros{}, size))
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
		t.Errorf("%d MiB allocated for a body of %d MiB", got>>20, size>>20)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestWhenTheCallerGoesTheRequestToTheRelayEnds(t *testing.T) {
	arrived, ended := make(chan struct{}), make(chan struct{})
	base := start(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
		close(ended)
	})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", base+"/rpc", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if res, err := client.Do(req); err == nil {
			res.Body.Close()
		}
	}()
	<-arrived
	cancel()
	<-ended
}

func TestADeadRelayIsExplained(t *testing.T) {
	base := forward(t, "unix:///nonexistent/relay.sock")
	res, text := do(t, "GET", base+"/git/k/info/refs", nil)
	if res.StatusCode != http.StatusBadGateway || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") || !strings.Contains(text, "agentbox relay start") {
		t.Errorf("git reads %s %s %q", res.Status, res.Header.Get("Content-Type"), text)
	}
	res, text = do(t, "POST", base+"/rpc", strings.NewReader("{}"))
	if res.StatusCode != http.StatusBadGateway || !strings.Contains(text, `"hint":`) {
		t.Errorf("a tool reads %s %q", res.Status, text)
	}
}
