package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
)

// Event is an event as `relay tail` shows it. Type and Payload are the box's.
type Event struct {
	Seq     int64           `json:"seq"`
	Box     string          `json:"boxId"`
	Type    core.Untrusted  `json:"type"`
	At      time.Time       `json:"at"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// maxPayload is how much of a payload is shown to people, in runes.
const maxPayload = 300

// RunTail shows the events of one box, or of all without a reference.
func RunTail(ctx context.Context, o *Options) error {
	if err := output.Check[Event](o.JSON); err != nil {
		return err
	}
	boxID := ""
	if o.Ref != "" {
		box, err := o.Box(o.Ref)
		if err != nil {
			return err
		}
		boxID = box.ID
	}
	relay, err := o.Relay(ctx)
	if err != nil {
		return err
	}
	since := o.Since
	for !o.Follow {
		list, err := relay.Events(ctx, boxID, since)
		if err != nil || len(list.Events) == 0 {
			return err
		}
		for _, e := range list.Events {
			if err := showEvent(o, e); err != nil {
				return err
			}
		}
		since = list.Next
	}
	err = relay.Follow(ctx, boxID, since, func(e wire.Event) error { return showEvent(o, e) })
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return fail.New(fail.Relay, "agentbox relay start", "the relay has ended")
	}
	return err
}

func showEvent(o *Options, e wire.Event) error {
	v := Event{e.Seq, e.BoxID, core.Untrusted(e.Type), e.ReceivedAt, e.Payload}
	if o.JSON.On {
		return output.One(o.Streams.Out, o.JSON, false, v) // one line each
	}
	_, err := fmt.Fprintf(o.Streams.Out, "%s  %s  %d  %s  %s\n", v.At.Format(time.RFC3339), v.Box, v.Seq,
		v.Type.Quote(), core.Untrusted(v.Payload).QuoteMax(maxPayload))
	return err
}
