package forwarder

import (
	"net/http"
	"strings"
	"testing"
)

func TestOnlyTheClosedListOfRoutesPasses(t *testing.T) {
	for _, c := range []struct {
		method, target string
		want           kind
	}{
		{"POST", "/rpc", call},
		{"POST", "/rpc?x=1", call},
		{"POST", "/events", call},
		{"GET", "/rpc/status/p1", call},
		{"GET", "/git/0123456789abcdef/info/refs?service=git-upload-pack", git},
		{"POST", "/git/0123456789abcdef/git-receive-pack", git},

		{"GET", "/rpc", refused},
		{"GET", "/events", refused},
		{"POST", "/rpc/", refused},
		{"POST", "/rpc/status/p1", refused},
		{"GET", "/rpc/status/", refused},
		{"GET", "/rpc/status/a/b", refused},
		{"PUT", "/git/k/info/refs", refused},
		{"HEAD", "/git/k/info/refs", refused},
		{"GET", "/git/", refused},
		{"GET", "/", refused},
		{"GET", "/healthz", refused},
		{"GET", "/admin/registry", refused},
		{"POST", "/admin/prompts/answer", refused},
		{"GET", "/bridge/poll", refused},

		{"GET", "/git/../admin/registry", refused},
		{"GET", "/git/k/./info", refused},
		{"GET", "/git/k/.git/config", refused},
		{"GET", "/git//admin/registry", refused},
		{"GET", "//admin/registry", refused},
		{"GET", "/git/%2e%2e/admin/registry", refused},
		{"GET", "/git/k%2finfo", refused},
		{"GET", `/git/..\admin`, refused},
		{"GET", "/git/k;x=/../admin", refused},
		{"GET", "/git/k/info/refs?service=git%2dupload-pack", refused},
		{"GET", "http://other/git/k/info/refs", refused},
		{"CONNECT", "other:80", refused},
		{"OPTIONS", "*", refused},
		{"POST", "/RPC", refused},
		{"", "", refused},
	} {
		if got := route(c.method, c.target); got != c.want {
			t.Errorf("route(%s %s) = %d, want %d", c.method, c.target, got, c.want)
		}
	}
}

func TestRequestsOfWebPagesAreKnown(t *testing.T) {
	for _, c := range []struct {
		host, header, value string
		want                bool
	}{
		{"127.0.0.1:8788", "", "", false},
		{"localhost:8788", "Authorization", "Bearer x", false},
		{"127.0.0.1:8788", "Sec-Fetch-Mode", "cors", false}, // Node's own fetch
		{"127.0.0.1:8788", "Origin", "http://localhost:3000", true},
		{"127.0.0.1:8788", "Origin", "null", true},
		{"127.0.0.1:8788", "Sec-Fetch-Site", "cross-site", true},
		{"rebound.example:8788", "", "", true},
		{"", "", "", true},
	} {
		r := &http.Request{Host: c.host, Header: http.Header{}}
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		if got := fromBrowser(r); got != c.want {
			t.Errorf("fromBrowser(%s, %s: %s) = %v, want %v", c.host, c.header, c.value, got, c.want)
		}
	}
}

func TestUpstreamTakesASocketOrPlainHTTP(t *testing.T) {
	for raw, want := range map[string]string{
		"unix:///run/agentbox/relay/relay.sock": "unix /run/agentbox/relay/relay.sock http://relay",
		"http://host.docker.internal:8787":      "tcp host.docker.internal:8787 http://host.docker.internal:8787",
		"http://host.docker.internal":           "tcp host.docker.internal:80 http://host.docker.internal",
		"http://[::1]:8787/prefix/":             "tcp [::1]:8787 http://[::1]:8787/prefix",
		"":                                      "",
		"unix://relay.sock":                     "",
		"unix:relay.sock":                       "",
		"https://relay.example":                 "",
		"http://user:word@host":                 "",
		"http://":                               "",
		"file:///etc/passwd":                    "",
		"http://host/?query":                    "",
		"://":                                   "",
	} {
		up, err := parseUpstream(raw)
		got := ""
		if err == nil {
			got = strings.Join([]string{up.network, up.address, up.base.String()}, " ")
		}
		if got != want {
			t.Errorf("parseUpstream(%q) = %q, want %q", raw, got, want)
		}
	}
}

func FuzzRoute(f *testing.F) {
	f.Add("GET", "/git/k/info/refs?service=git-upload-pack")
	f.Add("POST", "/rpc")
	f.Add("GET", "/git/..;/admin")
	f.Fuzz(func(t *testing.T, method, target string) {
		if route(method, target) == refused {
			return
		}
		r, err := http.NewRequest(method, "http://relay"+target, nil)
		if err != nil {
			t.Fatalf("%q passed and is no URL: %v", target, err)
		}
		path := r.URL.Path
		if path != r.URL.EscapedPath() || strings.Contains(path, "/.") {
			t.Errorf("%q reads as %q", target, path)
		}
		if path != "/rpc" && path != "/events" && !strings.HasPrefix(path, "/rpc/status/") && !strings.HasPrefix(path, "/git/") {
			t.Errorf("%q passed to %q", target, path)
		}
	})
}
