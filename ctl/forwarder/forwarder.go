// Package forwarder is the relay's address inside a box: a loopback HTTP
// listener that passes a closed list of requests on to the host's relay.
//
// Invariants:
//   - Only the routes of route pass, judged on the request target as it came;
//     anything else is 404, and a web page in the box's browser gets 403.
//   - The box's token is added to git's requests alone, which carry no token of
//     their own, and goes nowhere but to the host's relay: no redirect is
//     followed.
//   - Nothing is held back or collected in memory: bytes pass both ways as they
//     come, also the answer's while the request is still being sent.
//   - When the caller goes away the request to the relay ends.
package forwarder

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/madarco/agentbox/core/wire"
)

const (
	headerTime = 10 * time.Second
	idleTime   = time.Minute
	maxHeader  = 64 << 10
)

// Source gives the current address of the host's relay (unix:///path or
// http://host[:port][/prefix]) and the box's token. It is asked for each
// request, so that both may change.
type Source func() (hostURL, token string)

// New makes the forwarder's handler.
func New(source Source) http.Handler { return forwarder{source} }

// Serve runs the handler of the relay's address in the box, New's or another's,
// on the listener until ctx ends; requests that are under way then have until
// grace ends.
func Serve(ctx context.Context, ln net.Listener, handler http.Handler, grace time.Duration) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          silent,
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if server.Shutdown(end) != nil {
			server.Close()
		}
	})
	err := server.Serve(ln)
	if stop() { // Serve failed by itself
		return fmt.Errorf("serve the relay's address in the box: %w", err)
	}
	<-closed
	return nil
}

type forwarder struct{ source Source }

func (f forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := route(r.Method, r.RequestURI)
	if kind == refused {
		http.NotFound(w, r)
		return
	}
	if fromBrowser(r) {
		http.Error(w, "a web page may not use the relay", http.StatusForbidden)
		return
	}
	host, token := f.source()
	up, err := parseUpstream(host)
	if err != nil {
		fail(w, kind, err)
		return
	}
	// Without full duplex the server would read a whole push before it lets
	// the first line of the answer out. HTTP/1 always supports it.
	_ = http.NewResponseController(w).EnableFullDuplex()
	proxy := httputil.ReverseProxy{
		Transport:     up.transport(),
		FlushInterval: -1,
		ErrorLog:      silent,
		Rewrite:       func(p *httputil.ProxyRequest) { rewrite(p, up.base, kind, token) },
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { fail(w, kind, err) },
	}
	proxy.ServeHTTP(w, r)
}

// silent drops what net/http says about broken connections: that is the
// affair of the two ends, which both notice.
var silent = log.New(io.Discard, "", 0)

// rewrite aims a request at the relay. httputil has taken the hop-by-hop and
// X-Forwarded headers out, but keeps an upgrade, which nothing here speaks.
func rewrite(p *httputil.ProxyRequest, base *url.URL, kind kind, token string) {
	out := p.Out
	out.URL.Scheme, out.URL.Host = base.Scheme, base.Host
	out.URL.Path, out.URL.RawPath = base.Path+p.In.URL.Path, ""
	out.Host = ""
	out.Header.Del("Upgrade")
	out.Header.Del("Connection")
	out.Header.Del("Cookie")
	if kind != git {
		out.URL.RawQuery = ""
		return
	}
	out.Header.Del("Authorization")
	if token != "" {
		out.Header.Set("Authorization", "Bearer "+token)
	}
}

// fail tells the caller that the relay could not be asked, in the form that
// its kind of client shows to a person.
func fail(w http.ResponseWriter, kind kind, err error) {
	text := wire.Error{
		Error: fmt.Sprintf("the host's relay does not answer: %v", err),
		Hint:  "on the host, `agentbox relay status` says more; `agentbox relay start` starts it",
	}
	if kind == git { // git prints a plain text to its user
		http.Error(w, text.Error+"\n"+text.Hint, http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadGateway)
	_ = json.NewEncoder(w).Encode(text) // the caller may be gone
}
