package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/bridge"
	"github.com/madarco/agentbox/relay/store"
)

// bridged answers what comes over bridges as the box channel would: requests end
// in Dispatch, events in the channel's own route.
type bridged struct{ s *Server }

// busyPause is the wait before a request is tried again that runs already, as
// after a restart of the relay, or that came while it stops.
const busyPause = 2 * time.Second

// Act implements bridge.Host.
func (b bridged) Act(ctx context.Context, boxID string, req wire.Request) wire.Envelope {
	for {
		env, err := b.once(ctx, boxID, req)
		switch {
		case err == nil:
			return env
		case errors.Is(err, ErrUnknownMethod):
			return httpRefusal(http.StatusNotImplemented, err.Error())
		case errors.Is(err, store.ErrConflict):
			return httpRefusal(http.StatusConflict, "the request id belongs to another request")
		case ctx.Err() != nil:
			return wire.Envelope{ExitCode: wire.ExitFailed}
		case !errors.Is(err, store.ErrExists) && !errors.Is(err, errStopping):
			b.s.log.Error("request failed", "box", boxID, "err", err)
			return httpRefusal(http.StatusInternalServerError, "internal error")
		}
		select {
		case <-ctx.Done():
		case <-time.After(busyPause):
		}
	}
}

func (b bridged) once(ctx context.Context, boxID string, req wire.Request) (wire.Envelope, error) {
	reg, err := b.s.st.Box(ctx, boxID)
	if err != nil {
		return wire.Envelope{}, err
	}
	return b.s.Dispatch(ctx, reg.Box, req)
}

// httpRefusal is what a box with a channel prints for such an answer.
func httpRefusal(status int, text string) wire.Envelope {
	return refusal(wire.ExitFailed, fmt.Sprintf("relay: status %d: %s", status, text))
}

// Serial implements bridge.Host.
func (b bridged) Serial(ctx context.Context, boxID string, req wire.Request) string {
	var at struct {
		Path string `json:"path"`
	}
	reg, err := b.s.st.Box(ctx, boxID)
	if err != nil || json.Unmarshal(req.Params, &at) != nil {
		return ""
	}
	repo, _ := reg.Box.RepoAt(at.Path)
	return repo.Key
}

// Post implements bridge.Host.
func (b bridged) Post(ctx context.Context, boxID string, e wire.PostEvent) error {
	reg, err := b.s.st.Box(ctx, boxID)
	if err != nil {
		return err
	}
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	r, err := http.NewRequestWithContext(context.WithValue(ctx, boxKey{}, reg), http.MethodPost, "/events", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("post an event: %w", err)
	}
	var w verdictOnly
	b.s.postEvent(&w, r)
	if w.code >= http.StatusInternalServerError {
		return fmt.Errorf("keep an event of box %s: status %d", boxID, w.code)
	}
	return nil // kept, or refused for good
}

// verdictOnly is a ResponseWriter for who reads no body.
type verdictOnly struct {
	header http.Header
	code   int
}

func (w *verdictOnly) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

func (w *verdictOnly) Write(p []byte) (int, error) { return len(p), nil }
func (w *verdictOnly) WriteHeader(code int)        { w.code = code }

func (s *Server) newFleet() *bridge.Fleet {
	cfg := bridge.FleetConfig{Dir: s.cfg.Home.Bridges(), Host: bridged{s}, Log: s.log}
	if s.cfg.PreviewURL != nil {
		cfg.Recover = func(ctx context.Context, boxID string) (string, error) {
			reg, err := s.st.Box(ctx, boxID)
			if err != nil {
				return "", err
			}
			return s.cfg.PreviewURL(ctx, reg.Box)
		}
	}
	return bridge.NewFleet(cfg)
}

// OpenBridge goes on polling a registered box that has a bridge.
func (s *Server) OpenBridge(boxID string) error { return s.bridges.Open(boxID) }
