package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// What is open right now is streamed, not what has happened: each turn compares
// what the reader knows with what there is. So a slow reader skips what is over
// already, holds up nobody and needs no queue. The id of an event is all that
// the reader knows by then, so that it can go on after a break, even at the next
// relay.

// maxKnown bounds an id, which comes back in a header; a reader that knows more
// begins anew after a break.
const maxKnown = 16 << 10

// knownID is what the ids of approvals and notices look like.
var knownID = regexp.MustCompile(`^[a-z0-9]{1,40}$`)

// watcher is one reader of what is open.
type watcher struct {
	out   *stream
	known map[string]bool
}

// streamPrompts tells of each question that opens ("prompt-ask") or is open no
// longer ("prompt-resolved"), and of notices ("notice-set", "notice-clear"); of
// one box or, without boxId, of all.
func (s *Server) streamPrompts(w http.ResponseWriter, r *http.Request) {
	known := map[string]bool{}
	for id := range strings.SplitSeq(r.Header.Get("Last-Event-ID"), ",") {
		if knownID.MatchString(id) {
			known[id] = true
		}
	}
	out, err := newStream(w)
	if err != nil {
		return
	}
	v, box := &watcher{out, known}, r.URL.Query().Get("boxId")
	for {
		changed, stop := s.st.Watch(store.PendingTopic)
		noticed, stopNotices := s.notices.changed.Watch(noticesTopic)
		err := s.tellOpen(r.Context(), v, box)
		if err == nil {
			err = waitPing(r.Context(), out, changed, noticed)
		}
		stop()
		stopNotices()
		if err != nil {
			return
		}
	}
}

// tellOpen tells a reader what it does not know yet.
func (s *Server) tellOpen(ctx context.Context, v *watcher, box string) error {
	pending, err := s.prompts(ctx, box, []wire.ApprovalState{wire.Pending})
	if err != nil {
		return err
	}
	open := map[string]bool{}
	for _, a := range pending {
		open[a.ID] = true
		if err := v.opened(a.ID, "prompt-ask", a); err != nil {
			return err
		}
	}
	for _, n := range s.notices.current(box) {
		open[n.ID] = true
		if err := v.opened(n.ID, "notice-set", n); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.known)) {
		if open[id] {
			continue
		}
		name := "prompt-resolved"
		if strings.HasPrefix(id, noticePrefix) {
			name = "notice-clear"
		}
		delete(v.known, id)
		if err := v.send(name, map[string]string{"id": id}); err != nil {
			return err
		}
	}
	return nil
}

func (v *watcher) opened(id, name string, what any) error {
	if v.known[id] {
		return nil
	}
	v.known[id] = true
	return v.send(name, what)
}

func (v *watcher) send(name string, what any) error {
	id := strings.Join(slices.Sorted(maps.Keys(v.known)), ",")
	if len(id) > maxKnown {
		id = ""
	}
	return v.out.send(&id, name, what)
}

// waitPing waits for a change of either kind, and pings meanwhile.
func waitPing(ctx context.Context, out *stream, changed, other <-chan struct{}) error {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		select {
		case <-changed:
			return nil
		case <-other:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-ping.C:
			if err := out.ping(); err != nil {
				return err
			}
		}
	}
}

// getStatusOf answers with the latest status of a box, as the box wrote it. Its
// ETag names the status: with wait=SECONDS and If-None-Match the answer comes
// when the box has another one, or is 304 when the time is over. Only the latest
// status counts, whatever was between.
func (s *Server) getStatusOf(w http.ResponseWriter, r *http.Request) {
	box := r.URL.Query().Get("box")
	seconds, err := number(r, "wait", 0)
	if err != nil || !core.ValidBoxID(box) {
		writeError(w, http.StatusBadRequest, "box must be a box's id, and wait a number of seconds", "")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), min(maxStatusWait, time.Duration(min(seconds, 60))*time.Second))
	defer cancel()
	seen := r.Header.Get("If-None-Match")
	for {
		changed, stop := s.st.Watch(store.StatusTopic(box))
		st, err := s.latest(r.Context(), box)
		tag := statusTag(st)
		waits := seconds > 0 && (err == nil && tag == seen || errors.Is(err, errNoStatus))
		if waits {
			select {
			case <-changed:
				stop()
				continue
			case <-ctx.Done():
			}
		}
		stop()
		switch {
		case r.Context().Err() != nil: // nobody reads the answer
		case errors.Is(err, store.ErrNotFound), errors.Is(err, errNoStatus):
			writeJSON(w, http.StatusNotFound, struct {
				wire.Error
				Box string `json:"box"`
			}{wire.Error{Error: err.Error()}, box})
		case err != nil:
			s.internal(w, err)
		case tag == seen:
			w.Header().Set("ETag", tag)
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("ETag", tag)
			writeJSON(w, http.StatusOK, st.Snapshot)
		}
		return
	}
}

// errNoStatus: the box is registered, and has sent no status yet.
var errNoStatus = errors.New("the box has sent no status yet")

// latest is the latest status of a box. Errors: store.ErrNotFound for one that
// is not registered, errNoStatus, the store's.
func (s *Server) latest(ctx context.Context, box string) (store.Status, error) {
	st, err := s.st.Status(ctx, box)
	if !errors.Is(err, store.ErrNotFound) {
		return st, err
	}
	if _, err := s.st.Box(ctx, box); err != nil {
		return st, err
	}
	return st, errNoStatus
}

func statusTag(st store.Status) string {
	sum := sha256.Sum256(st.Snapshot)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}
