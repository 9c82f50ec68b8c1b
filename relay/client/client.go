// Package client asks the relay for things on the operator's socket, for the
// user's commands.
//
// Invariant: it connects to nothing but the socket in the user's own home, and
// follows no redirect.
package client

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

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
)

var (
	// ErrNotRunning: no relay listens on the socket.
	ErrNotRunning = errors.New("the relay is not running; start it with: agentbox relay start")
	// ErrStopping: the relay is about to end.
	ErrStopping = errors.New("the relay is stopping")
	// ErrNotFound: the relay knows no such box or approval.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the approval was answered already, has expired, or is not
	// the one that was looked at; the token is another box's.
	ErrConflict = errors.New("not possible any more")
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

// Client talks to one relay. It is safe for concurrent use.
type Client struct{ http *http.Client }

// New makes a client of the relay of this home; it connects when it is used.
func New(home core.Home) *Client {
	return &Client{&http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", home.OperatorSocket())
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close gives up idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Health tells how the relay is.
func (c *Client) Health(ctx context.Context) (h wire.Health, err error) {
	err = c.get(ctx, "/healthz", nil, &h)
	return h, err
}

// Register makes the relay serve a box; its channel is open on return.
func (c *Client) Register(ctx context.Context, r wire.RegisterBox) error {
	return c.post(ctx, "/admin/register-box", r, nil)
}

// Forget ends the relay's service to a box. An unknown box is no error.
func (c *Client) Forget(ctx context.Context, boxID string) error {
	return c.post(ctx, "/admin/forget-box", wire.ForgetBox{BoxID: boxID}, nil)
}

// Registry lists the boxes that the relay serves.
func (c *Client) Registry(ctx context.Context) ([]wire.RegisteredBox, error) {
	var out wire.Registry
	err := c.get(ctx, "/admin/registry", nil, &out)
	return out.Boxes, err
}

// Approvals lists what waits for the user, what was allowed and not used yet,
// what runs, and what nobody answered in time; of all boxes if boxID is empty.
func (c *Client) Approvals(ctx context.Context, boxID string) ([]wire.Approval, error) {
	var out wire.Prompts
	err := c.get(ctx, "/admin/prompts", url.Values{"boxId": {boxID}}, &out)
	return out.Prompts, err
}

// Answer answers an approval. Where the relay carries out the request itself it
// tells what came of it. Errors wrap ErrNotFound or ErrConflict.
func (c *Client) Answer(ctx context.Context, a wire.Answer) (done wire.Answered, err error) {
	err = c.post(ctx, "/admin/prompts/answer", a, &done)
	return done, err
}

// Push pushes what a box has landed, for the user.
func (c *Client) Push(ctx context.Context, p wire.HostPush) (env wire.Envelope, err error) {
	err = c.post(ctx, "/admin/git/push", p, &env)
	return env, err
}

// Land hands in what was pulled out of a box, a stream of package handin. With
// ask nothing lands: AskLanding comes next.
func (c *Client) Land(ctx context.Context, boxID string, ask bool, stream io.Reader) ([]wire.LandingResult, error) {
	query := url.Values{"box": {boxID}}
	if ask {
		query.Set("ask", "1")
	}
	var out wire.Landings
	err := c.do(ctx, http.MethodPost, "/admin/land", query, "application/x-agentbox-handin", stream, &out)
	return out.Landings, err
}

// AskLanding opens the question about a landing that the user wants. Errors wrap
// ErrNotFound, or ErrConflict where the box has handed in no such branch.
func (c *Client) AskLanding(ctx context.Context, a wire.AskLanding) (out wire.AskedLanding, err error) {
	err = c.post(ctx, "/admin/land/ask", a, &out)
	return out, err
}

// Landings lists what was handed in and has not landed, of all boxes if boxID is
// empty.
func (c *Client) Landings(ctx context.Context, boxID string) ([]wire.WaitingLanding, error) {
	var out wire.Waiting
	err := c.get(ctx, "/admin/landings", url.Values{"box": {boxID}}, &out)
	return out.Landings, err
}

// Audit lists up to limit entries of the audit log after number since.
func (c *Client) Audit(ctx context.Context, since int64, limit int) ([]wire.AuditEntry, error) {
	var out wire.AuditList
	err := c.get(ctx, "/admin/audit", url.Values{"since": {strconv.FormatInt(since, 10)}, "limit": {strconv.Itoa(limit)}}, &out)
	return out.Entries, err
}

// Shutdown asks the relay to end. It answers before it does.
func (c *Client) Shutdown(ctx context.Context) error {
	return c.post(ctx, "/admin/shutdown", struct{}{}, nil)
}

// Events lists events after since: a number for one box, a cursor for all
// boxes, "" from the oldest.
func (c *Client) Events(ctx context.Context, boxID, since string) (out wire.EventList, err error) {
	err = c.get(ctx, "/admin/events", url.Values{"box": {boxID}, "since": {since}}, &out)
	return out, err
}

func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.do(ctx, http.MethodGet, path, query, "", nil, out)
}

func (c *Client) post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	return c.do(ctx, http.MethodPost, path, nil, "application/json", bytes.NewReader(body), out)
}

func (c *Client) do(ctx context.Context, method, path string, query url.Values, contentType string, body io.Reader, out any) error {
	header := http.Header{}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	resp, err := c.send(ctx, method, path, query, header, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if out == nil || resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out); err != nil {
		return fmt.Errorf("read the relay's answer: %w", err)
	}
	return nil
}

// send gives back only successes, and "not modified" where the header asks for
// that; the caller closes the body.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, header http.Header, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://relay"+path+"?"+query.Encode(), body)
	if err != nil {
		return nil, fmt.Errorf("ask the relay: %w", err)
	}
	req.Header = header
	resp, err := c.http.Do(req)
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" && ctx.Err() == nil {
		return nil, ErrNotRunning
	} else if err != nil {
		return nil, fmt.Errorf("ask the relay: %w", err)
	}
	if resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusNotModified {
		return resp, nil
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	return nil, refused(resp)
}

// refused is an answer that is no success, in the relay's words.
func refused(resp *http.Response) error {
	var e wire.Error
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&e); err != nil || e.Error == "" {
		e.Error = "the relay answered with " + resp.Status
	}
	if e.Hint != "" {
		e.Error += "; " + e.Hint
	}
	switch resp.StatusCode {
	case http.StatusServiceUnavailable:
		return fmt.Errorf("%w: %s", ErrStopping, e.Error)
	case http.StatusNotFound:
		return fmt.Errorf("%w: %s", ErrNotFound, e.Error)
	case http.StatusConflict:
		return fmt.Errorf("%w: %s", ErrConflict, e.Error)
	}
	return refusal(e.Error)
}

// refusal is an answer with no error of its own.
type refusal string

func (r refusal) Error() string { return string(r) }
