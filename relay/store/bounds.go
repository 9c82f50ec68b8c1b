package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/madarco/agentbox/core/wire"
)

// CheckEvent returns the payload as it is kept, for drivers. The error wraps
// ErrTooLarge or ErrSecret, or says that the payload is not JSON.
func CheckEvent(e wire.PostEvent) (json.RawMessage, error) {
	if e.Type == wire.CredentialsEvent {
		return nil, ErrSecret
	}
	var payload json.RawMessage
	if e.Payload != nil {
		var err error
		if payload, err = json.Marshal(e.Payload); err != nil {
			return nil, fmt.Errorf("read the payload: %w", err)
		}
	}
	if size := len(e.Type) + len(e.TS) + len(payload); size > MaxEventBytes {
		return nil, fmt.Errorf("%d bytes: %w", size, ErrTooLarge)
	}
	return payload, nil
}

// NewEvent is the event that is kept of e, for drivers; CheckEvent has passed it.
func NewEvent(boxID string, number int64, e wire.PostEvent, now time.Time) wire.Event {
	return wire.Event{
		Seq: number, BoxID: boxID, Type: e.Type, Source: wire.SourceOf(e.Type), ReceivedAt: now, TS: e.TS, Payload: e.Payload,
	}
}

// CheckStatus refuses a snapshot that is no JSON or too large, for drivers.
func CheckStatus(snapshot json.RawMessage) error {
	if len(snapshot) > MaxStatusBytes {
		return fmt.Errorf("%d bytes: %w", len(snapshot), ErrTooLarge)
	}
	if !json.Valid(snapshot) {
		return fmt.Errorf("the snapshot is not JSON: %w", wire.ErrBadJSON)
	}
	return nil
}

// checkSize holds a request and the short texts beside it to their bounds.
func checkSize(request json.RawMessage, texts ...string) error {
	if len(request) > MaxRequestBytes {
		return fmt.Errorf("the request has %d bytes: %w", len(request), ErrTooLarge)
	}
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	if size > MaxTextBytes {
		return fmt.Errorf("the texts have %d bytes: %w", size, ErrTooLarge)
	}
	return nil
}
