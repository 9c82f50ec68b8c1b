package relayclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
)

// postTime bounds one event: nobody in the box waits for the host's attention.
const postTime = 2 * time.Second

// Post tells the relay of an event, once, within two seconds. The error wraps
// ErrUnreachable, or says why the relay did not take it.
func (c *Client) Post(ctx context.Context, kind string, payload any) error {
	raw, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("encode the event %s: %w", kind, err)
	}
	body, err := json.Marshal(wire.PostEvent{Type: kind, TS: time.Now().UTC().Format(time.RFC3339Nano), Payload: raw})
	if err != nil {
		return fmt.Errorf("encode the event %s: %w", kind, err)
	}
	ctx, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	status, answer, err := c.send(ctx, http.MethodPost, "/events", body)
	switch {
	case err != nil:
		return fmt.Errorf("post the event %s: %w: %w", kind, ErrUnreachable, err)
	case status != http.StatusAccepted:
		return fmt.Errorf("post the event %s: status %d: %s", kind, status, core.Untrusted(answer).Quote())
	}
	return nil
}
