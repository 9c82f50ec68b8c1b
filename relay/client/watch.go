package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/madarco/agentbox/core/wire"
)

// Act does a host action for a box as the user, whose command it is.
func (c *Client) Act(ctx context.Context, a wire.Act) (env wire.Envelope, err error) {
	err = c.post(ctx, "/admin/act", a, &env)
	return env, err
}

// SetNotice tells whoever watches a box of something until ClearNotice or its
// time is over, and returns its id.
func (c *Client) SetNotice(ctx context.Context, n wire.SetNotice) (id string, err error) {
	var out wire.NoticeID
	err = c.post(ctx, "/admin/notices/set", n, &out)
	return out.ID, err
}

// ClearNotice takes a notice away; one that is not there is no error.
func (c *Client) ClearNotice(ctx context.Context, boxID, id string) error {
	return c.post(ctx, "/admin/notices/clear", wire.ClearNotice{BoxID: boxID, ID: id}, nil)
}

// BoxStatus is the latest status of a box as the box wrote it, which is untrusted
// text, and a tag that names it. With wait it comes as soon as the box has one of
// another tag than seen, and else, when the time is over, with that same tag and
// no text. Errors wrap ErrNotFound while there is none.
func (c *Client) BoxStatus(ctx context.Context, boxID, seen string, wait time.Duration) (status json.RawMessage, tag string, err error) {
	query := url.Values{"box": {boxID}, "wait": {strconv.Itoa(int(wait.Round(time.Second).Seconds()))}}
	header := http.Header{}
	if seen != "" {
		header.Set("If-None-Match", seen)
	}
	resp, err := c.send(ctx, http.MethodGet, "/admin/box-status", query, header, nil)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	if resp.StatusCode == http.StatusNotModified {
		return nil, seen, nil
	}
	status, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, "", fmt.Errorf("read the status of box %s: %w", boxID, err)
	}
	return status, resp.Header.Get("ETag"), nil
}

// Follow is Events that goes on: it calls each for every event, in order, until
// each fails, the context ends, or the relay does (io.EOF).
func (c *Client) Follow(ctx context.Context, boxID, since string, each func(wire.Event) error) error {
	_, err := c.stream(ctx, "/admin/events", url.Values{"box": {boxID}, "since": {since}, "follow": {"1"}}, "", func(m message) error {
		if m.name != "event" {
			return nil
		}
		var e wire.Event
		if err := json.Unmarshal(m.data, &e); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		return each(e)
	})
	return err
}

// Open is a change of what is open: exactly one field is set.
type Open struct {
	Asked *wire.Approval
	// Resolved is the id of a question that waits no longer.
	Resolved string
	Notice   *wire.Notice
	// Cleared is the id of a notice that is over.
	Cleared string
}

// The waits before a stream that broke is asked for again.
const minBackoff, maxBackoff = 200 * time.Millisecond, 5 * time.Second

// WatchOpen calls each for every question and notice that opens or is over, of
// one box or of all where boxID is empty: first for those that are open now. It
// goes on over restarts of the relay until each fails, the context ends, or the
// relay refuses.
func (c *Client) WatchOpen(ctx context.Context, boxID string, each func(Open) error) error {
	last, backoff := "", minBackoff
	for {
		connected := false
		next, err := c.stream(ctx, "/admin/prompts/stream", url.Values{"boxId": {boxID}}, last, func(m message) error {
			connected = true
			o, ok, err := opened(m)
			if err != nil || !ok {
				return err
			}
			if err := each(o); err != nil {
				return stop{err}
			}
			return nil
		})
		last = next
		var stopped stop
		var refused refusal
		switch {
		case errors.As(err, &stopped):
			return stopped.error
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refused), errors.Is(err, ErrNotFound), errors.Is(err, ErrConflict):
			return err
		}
		if connected {
			backoff = minBackoff
		}
		timer := time.NewTimer(backoff)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// stop is an error of the caller's own.
type stop struct{ error }

// opened reads one message; false for one that tells nothing of it.
func opened(m message) (o Open, ok bool, err error) {
	var over struct {
		ID string `json:"id"`
	}
	switch m.name {
	case "prompt-ask":
		err = json.Unmarshal(m.data, &o.Asked)
	case "notice-set":
		err = json.Unmarshal(m.data, &o.Notice)
	case "prompt-resolved":
		err = json.Unmarshal(m.data, &over)
		o.Resolved = over.ID
	case "notice-clear":
		err = json.Unmarshal(m.data, &over)
		o.Cleared = over.ID
	default:
		return o, false, nil
	}
	if err != nil {
		return o, false, stop{fmt.Errorf("read what is open: %w", err)}
	}
	return o, true, nil
}

// message is one message of a text/event-stream.
type message struct {
	name string
	data []byte
}

// stream reads a text/event-stream until each fails, the context ends, or the
// relay does (io.EOF). last is the id of the last message that was read, given
// and returned.
func (c *Client) stream(ctx context.Context, path string, query url.Values, last string, each func(message) error) (string, error) {
	header := http.Header{}
	if last != "" {
		header.Set("Last-Event-ID", last)
	}
	resp, err := c.send(ctx, http.MethodGet, path, query, header, nil)
	if err != nil {
		return last, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	name, id := "", last
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "event":
			name = value
		case "id":
			id = value
		case "data":
			if err := each(message{name, []byte(value)}); err != nil {
				return last, err
			}
			last = id
		}
	}
	if ctx.Err() != nil {
		return last, ctx.Err()
	}
	if err := lines.Err(); err != nil {
		return last, fmt.Errorf("read the relay's stream: %w", err)
	}
	return last, io.EOF
}

// maxLine bounds one message: a question with all that it is about.
const maxLine = 4 << 20
