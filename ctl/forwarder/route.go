package forwarder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/madarco/agentbox/core"
)

// kind is what a request is for.
type kind int

const (
	refused kind = iota
	call         // /rpc, /rpc/status/<id>, /events: the caller brings the token
	git          // /git/…: the forwarder adds it
)

const statusPrefix, gitPrefix = "/rpc/status/", "/git/"

// route judges a request by its method and its target exactly as sent, before
// anything decodes it: whatever two readers could take for different paths
// (escapes, odd bytes, empty and dot segments, a host) is refused.
func route(method, target string) kind {
	path, query, _ := strings.Cut(target, "?")
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "//") || strings.Contains(path, "/.") || !plain(path, "/") || !plain(query, "=&+") {
		return refused
	}
	switch id, isStatus := strings.CutPrefix(path, statusPrefix); {
	case method == http.MethodPost && (path == "/rpc" || path == "/events"):
		return call
	case method == http.MethodGet && isStatus && id != "" && !strings.Contains(id, "/"):
		return call
	case (method == http.MethodGet || method == http.MethodPost) && strings.HasPrefix(path, gitPrefix) && len(path) > len(gitPrefix):
		return git
	}
	return refused
}

// plain tells whether s holds only the bytes that a URL never escapes
// (RFC 3986, unreserved) and those of also.
func plain(s, also string) bool {
	for i := range len(s) {
		c := s[i]
		if c >= utf8.RuneSelf || !unicode.IsLetter(rune(c)) && !unicode.IsDigit(rune(c)) && !strings.Contains("-._~"+also, s[i:i+1]) {
			return false
		}
	}
	return true
}

// fromBrowser tells whether a web page sent the request. Pages carry an origin
// or fetch metadata, and a name of their own when they had it rebound to the
// loopback address. Git and our own tools carry none of these.
func fromBrowser(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" ||
		host != "127.0.0.1" && host != "localhost"
}

// upstream is the host's relay: base is the address that requests are aimed
// at, network and address what is dialled.
type upstream struct {
	base             *url.URL
	network, address string
}

var errNoUpstream = errors.New("AGENTBOX_HOST_RELAY_URL must be unix:///path or http://host[:port]")

// parseUpstream reads the value of AGENTBOX_HOST_RELAY_URL.
func parseUpstream(raw string) (upstream, error) {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return upstream{}, fmt.Errorf("%w, not %s", errNoUpstream, core.Untrusted(raw).Quote())
	}
	switch {
	case u.Scheme == "unix" && u.Host == "" && strings.HasPrefix(u.Path, "/"):
		return upstream{base: &url.URL{Scheme: "http", Host: "relay"}, network: "unix", address: u.Path}, nil
	case u.Scheme == "http" && u.Hostname() != "":
		port := u.Port()
		if port == "" {
			port = "80"
		}
		base := &url.URL{Scheme: "http", Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}
		return upstream{base: base, network: "tcp", address: net.JoinHostPort(u.Hostname(), port)}, nil
	}
	return upstream{}, fmt.Errorf("%w, not %s", errNoUpstream, core.Untrusted(raw).Quote())
}

const connectTime = 5 * time.Second

// transport makes one request. It keeps no connection: one to a relay that was
// restarted since would fail a push, which can't be sent twice. There is no
// bound on the wait for an answer, since a person may be asked.
func (u upstream) transport() *http.Transport {
	dialer := net.Dialer{Timeout: connectTime}
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, u.network, u.address)
		},
		DisableKeepAlives:     true,
		DisableCompression:    true,
		ExpectContinueTimeout: time.Second,
	}
}
