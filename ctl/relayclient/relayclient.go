// Package relayclient is how a tool in the box asks the relay for something.
//
// Invariants:
//   - A request carries an id, so that sending it again after a broken
//     connection never does a thing twice.
//   - The token goes to the configured address alone: no proxy, no redirect.
//   - Waiting for a person has no bound but the question's own deadline; the
//     caller's context ends it before.
package relayclient

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/relayenv"
)

// ErrNotConfigured: the box has no relay, or no usable address of one.
var ErrNotConfigured = errors.New("no relay configured")

// ErrUnreachable: the relay did not answer, also not to the retries.
var ErrUnreachable = errors.New("the relay does not answer")

const (
	maxAnswer = 64 << 20
	// lateAnswer is how long after a question's deadline the relay may still tell
	// that it has expired: the clocks differ, and it may have to be started first.
	lateAnswer = 10 * time.Minute
	// lifeEvery is how often a wait is told of again.
	lifeEvery = 30 * time.Second
	// The pause between two looks at a parked request, with a random part so
	// that many callers do not ask in step.
	pollTime, pollSpread = 1500 * time.Millisecond, 400 * time.Millisecond
)

// retries are the waits before a request that failed on the way is sent again:
// long enough for a relay to be restarted.
var retries = []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}

// Client asks one relay.
type Client struct {
	base, token string
	transport   http.RoundTripper
	notice      func(text string)
}

// New finds the relay of this box, see package relayenv. notice is told, for
// the person at the terminal, what a long wait is for. The error wraps
// ErrNotConfigured.
func New(notice func(text string)) (*Client, error) {
	base, token := relayenv.Lookup(relayenv.URL), relayenv.Lookup(relayenv.Token)
	if base == "" || token == "" {
		return nil, fmt.Errorf("%w: neither the environment nor %s sets both %s and %s; this works in a box that the host has set up", ErrNotConfigured, relayenv.Path(), relayenv.URL, relayenv.Token)
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%w: %s is %s, which is no http address", ErrNotConfigured, relayenv.URL, core.Untrusted(base).Quote())
	}
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy
	return &Client{base: strings.TrimSuffix(u.Scheme+"://"+u.Host+u.Path, "/"), token: token, transport: transport, notice: notice}, nil
}

// Call runs one method and returns what the relay answered, however long a
// person takes. The error wraps ErrUnreachable or is the context's.
func (c *Client) Call(ctx context.Context, method string, params any) (wire.Envelope, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return wire.Envelope{}, fmt.Errorf("encode the params of %s: %w", method, err)
	}
	body, err := json.Marshal(wire.Request{RequestID: rand.Text(), Method: method, Params: raw})
	if err != nil {
		return wire.Envelope{}, fmt.Errorf("encode %s: %w", method, err)
	}
	for {
		// After a yes the same request is sent again, and is done then.
		env, again, err := c.try(ctx, method, body)
		if err != nil || !again {
			return env, err
		}
	}
}

// try sends a request until it has an answer, and waits where that is a question.
func (c *Client) try(ctx context.Context, method string, body []byte) (env wire.Envelope, again bool, err error) {
	for attempt := 0; ; attempt++ {
		status, answer, err := c.send(ctx, http.MethodPost, "/rpc", body)
		switch {
		case ctx.Err() != nil:
			return wire.Envelope{}, false, ctx.Err()
		case err == nil && status == http.StatusAccepted:
			return c.await(ctx, answer)
		case err == nil && !onTheWay(status):
			return envelope(status, answer), false, nil
		case attempt == len(retries):
			if err == nil {
				err = fmt.Errorf("status %d: %s", status, core.Untrusted(answer).Quote())
			}
			return wire.Envelope{}, false, fmt.Errorf("%s: %w: %w", method, ErrUnreachable, err)
		}
		if err := pause(ctx, retries[attempt]); err != nil {
			return wire.Envelope{}, false, err
		}
	}
}

// onTheWay tells a status that a forwarder gives in the relay's place.
func onTheWay(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// envelope reads an answer; one without an envelope speaks by its status.
func envelope(status int, answer []byte) wire.Envelope {
	var e struct {
		ExitCode *int   `json:"exitCode"`
		Stdout   string `json:"stdout"`
		Stderr   string `json:"stderr"`
	}
	if json.Unmarshal(answer, &e) == nil && e.ExitCode != nil {
		return wire.Envelope{ExitCode: *e.ExitCode, Stdout: e.Stdout, Stderr: e.Stderr}
	}
	if status/100 == 2 {
		return wire.Envelope{}
	}
	var refusal wire.Error
	text := strings.TrimSpace(string(answer))
	if json.Unmarshal(answer, &refusal) == nil && refusal.Error != "" {
		text = strings.TrimSpace(refusal.Error + "\n" + refusal.Hint)
	}
	return wire.Envelope{ExitCode: wire.ExitFailed, Stderr: fmt.Sprintf("relay: status %d: %s\n", status, text)}
}

// validPrompt tells whether an id may stand in a path.
func validPrompt(id string) bool {
	const safe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return id != "" && len(id) <= 100 && strings.Trim(id, safe) == ""
}

// await polls a parked request until it has a result, or a yes.
func (c *Client) await(ctx context.Context, answer []byte) (env wire.Envelope, again bool, err error) {
	var parked wire.Parked
	if json.Unmarshal(answer, &parked) != nil || !validPrompt(parked.PromptID) {
		return wire.Envelope{ExitCode: wire.ExitFailed, Stderr: "relay: the request is parked, but under no name\n"}, false, nil
	}
	what := strings.TrimSpace(parked.Message + "\nwaiting for the user's yes; on the host: agentbox agent approve " + parked.PromptID)
	c.notice(what)
	for told := time.Now(); ; {
		if time.Since(told) >= lifeEvery {
			c.notice("still waiting for the user's yes to " + parked.PromptID)
			told = time.Now()
		}
		// A relay that holds the look until something changes needs no pause of
		// ours; one that does not, or is away, is not asked in a tight loop.
		asked := time.Now()
		if !parked.Deadline.IsZero() && asked.After(parked.Deadline.Add(lateAnswer)) {
			return wire.Envelope{}, false, fmt.Errorf("wait for the yes to %s, whose time is over: %w", parked.PromptID, ErrUnreachable)
		}
		status, answer, err := c.send(ctx, http.MethodGet, "/rpc/status/"+parked.PromptID+"?wait=20", nil)
		if ctx.Err() != nil {
			return wire.Envelope{}, false, ctx.Err()
		}
		var state struct {
			Status string          `json:"status"`
			Result json.RawMessage `json:"result"`
		}
		switch {
		case err != nil || onTheWay(status):
		case status != http.StatusOK || json.Unmarshal(answer, &state) != nil:
			return envelope(status, answer), false, nil
		case state.Status == "done":
			return envelope(status, state.Result), false, nil
		case state.Status == "approved":
			return wire.Envelope{}, true, nil
		}
		if time.Since(asked) >= pollTime {
			continue
		}
		spread := mathrand.N(pollSpread) //nolint:gosec // guards nothing
		if err := pause(ctx, pollTime+spread); err != nil {
			return wire.Envelope{}, false, err
		}
	}
}

func (c *Client) send(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if method == http.MethodPost {
		req.Header.Set("Prefer", "respond-async")
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.transport.RoundTrip(req) // not a Client: it would follow redirects
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return res.StatusCode, answer, err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
