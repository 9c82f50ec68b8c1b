package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/madarco/agentbox/core/wire"
)

// maxPoll bounds the answer to a poll.
const maxPoll = 16 << 20

// errStatus is an answer of the bridge, or of what stands before it, that is no
// success.
type errStatus int

func (e errStatus) Error() string { return fmt.Sprintf("the bridge answered status %d", int(e)) }

// CheckLink tells whether a link may be used: TLS, or this machine itself.
func CheckLink(l wire.BridgeLink) error {
	u, err := url.Parse(l.PreviewURL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("the bridge's previewUrl is no plain address")
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme != "https" && (u.Scheme != "http" || ip == nil || !ip.IsLoopback()) {
		return errors.New("the bridge's previewUrl is neither https nor on this machine")
	}
	for _, token := range []string{l.BridgeToken, l.PreviewToken} {
		if strings.ContainsAny(token, "\r\n\x00") {
			return errors.New("a token of the bridge holds a line break")
		}
	}
	if len(l.BridgeToken) < 32 || len(l.BridgeToken) > 256 || len(l.PreviewToken) > 4096 {
		return errors.New("the bridgeToken must have 32 to 256 bytes, the previewToken at most 4096")
	}
	return nil
}

// NewTransport keeps connections to bridges, over TLS, through no proxy.
func NewTransport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     time.Minute,
		ForceAttemptHTTP2:   true,
	}
}

// ask sends one request within timeout and decodes the answer into dst, unless
// that is nil. It is no http.Client, which would follow redirects.
func (p *Poller) ask(ctx context.Context, timeout time.Duration, method, path string, body, dst any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var sent io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode a request of the bridge: %w", err)
		}
		sent = bytes.NewReader(raw)
	}
	link := p.currentLink()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(link.PreviewURL, "/")+path, sent)
	if err != nil {
		return errors.New("the bridge's address can't be used")
	}
	req.Header.Set("Authorization", "Bearer "+link.BridgeToken)
	if link.PreviewToken != "" {
		req.Header.Set("X-Daytona-Preview-Token", link.PreviewToken)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := p.cfg.Transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxPoll+1))
	switch {
	case err != nil:
		return err
	case res.StatusCode/100 != 2:
		return errStatus(res.StatusCode)
	case len(answer) > maxPoll:
		return errors.New("the bridge's answer is too large")
	case dst == nil:
		return nil
	}
	if err := wire.Decode(answer, dst); err != nil {
		return fmt.Errorf("read the bridge's answer: %w", err)
	}
	return nil
}

// pollPath is the request of a poll.
func pollPath(seen Cursor, hold time.Duration) string {
	q := url.Values{}
	q.Set("since", strconv.FormatInt(seen.Events, 10))
	q.Set("status", strconv.FormatInt(seen.Status, 10))
	q.Set("credentials", strconv.FormatInt(seen.Credentials, 10))
	q.Set("wait", strconv.Itoa(int(hold/time.Second)))
	if seen.Instance != "" {
		q.Set("instance", seen.Instance)
	}
	return "/bridge/poll?" + q.Encode()
}

// lost tells an error of the connection itself, after which the box may be at
// another address, from an answer and from an end of time.
func lost(err error) bool {
	var status errStatus
	var timeout net.Error
	switch {
	case errors.As(err, &status), errors.Is(err, wire.ErrBadJSON), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.As(err, &timeout) && timeout.Timeout():
		return false
	}
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
