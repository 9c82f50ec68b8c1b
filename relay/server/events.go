package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// event tells followers what the relay did. The audit log is the record; an
// event that can't be kept is only logged.
func (s *Server) event(ctx context.Context, boxID, kind string, payload map[string]string) {
	body, err := json.Marshal(payload)
	if err == nil {
		_, err = s.st.AppendEvent(context.WithoutCancel(ctx), boxID, wire.PostEvent{Type: wire.RelayEventPrefix + kind, Payload: body})
	}
	if err != nil {
		s.log.Warn("keep an event", "box", boxID, "type", kind, "err", err)
	}
}

// reserved lists types of the relay's from before wire.RelayEventPrefix, which
// readers may still take for decisions. A box can post neither.
var reserved = map[string]bool{"host-action-auto-approved": true, "rpc-unknown": true, "autopause": true}

func (s *Server) postEvent(w http.ResponseWriter, r *http.Request) {
	var e wire.PostEvent
	if !readJSON(w, r, &e) {
		return
	}
	box := boxOf(r).Box.ID
	switch {
	case e.Type == "" || len(e.Type) > 100:
		writeError(w, http.StatusBadRequest, "type is missing or too long", "")
		return
	case wire.SourceOf(e.Type) == wire.FromRelay || reserved[e.Type]:
		writeError(w, http.StatusBadRequest, "this type of event is the relay's own", "")
		return
	case e.Type == wire.CredentialsEvent:
		s.postLogin(w, r, box, e.Payload)
		return
	case e.Type == "box-status":
		s.postStatus(w, r, box, e.Payload)
		return
	}
	kept, err := s.st.AppendEvent(r.Context(), box, e)
	if s.refusedEvent(w, err) {
		return
	}
	writeJSON(w, http.StatusAccepted, map[string]int64{"id": kept.Seq})
}

func (s *Server) postStatus(w http.ResponseWriter, r *http.Request, box string, snapshot json.RawMessage) {
	var head struct {
		Schema int    `json:"schema"`
		BoxID  string `json:"boxId"`
	}
	if json.Unmarshal(snapshot, &head) != nil || head.Schema != 1 || head.BoxID != box {
		writeError(w, http.StatusBadRequest, "not a status of this box in schema 1", "")
		return
	}
	if !s.refusedEvent(w, s.st.SetStatus(r.Context(), box, snapshot)) {
		writeJSON(w, http.StatusAccepted, map[string]bool{"ok": true})
	}
}

func (s *Server) refusedEvent(w http.ResponseWriter, err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, store.ErrTooLarge):
		writeError(w, http.StatusRequestEntityTooLarge, "the event is too large", "")
	default:
		s.internal(w, err)
	}
	return true
}

// stream is an answer in text/event-stream.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func newStream(w http.ResponseWriter) (*stream, error) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	s := &stream{w, http.NewResponseController(w)}
	return s, s.write(": connected\n\n")
}

// writeTime is how long a reader may take what is sent before it is dropped.
const writeTime = 10 * time.Second

func (s *stream) write(text string) error {
	err := s.rc.SetWriteDeadline(time.Now().Add(writeTime))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}

// send sends one event. The id is where the reader goes on after a break; nil
// leaves it at that of the last event.
func (s *stream) send(id *string, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("event: %s\ndata: %s\n\n", name, data)
	if id != nil {
		text = "id: " + *id + "\n" + text
	}
	return s.write(text)
}

// pingEvery keeps proxies and readers sure that the stream lives.
const pingEvery = 15 * time.Second

func (s *stream) ping() error {
	return s.send(nil, "ping", map[string]time.Time{"ts": time.Now().UTC()})
}
