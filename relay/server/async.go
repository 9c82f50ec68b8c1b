package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// A caller that would rather not block says "Prefer: respond-async" (RFC 7240)
// and is told of the question instead of waiting for its answer. After a yes it
// sends the same request again, which uses the yes up as any other caller would.

type asyncKey struct{}

// parked is a question that an asynchronous caller does not wait for.
type parked struct{ store.Approval }

func (parked) Error() string { return "the request waits for the user" }

// preferring marks the context of a request that would rather not block.
func preferring(r *http.Request) context.Context {
	for _, line := range r.Header.Values("Prefer") {
		for _, p := range strings.Split(line, ",") {
			if strings.EqualFold(strings.TrimSpace(p), "respond-async") {
				return context.WithValue(r.Context(), asyncKey{}, true)
			}
		}
	}
	return r.Context()
}

func isAsync(ctx context.Context) bool { return ctx.Value(asyncKey{}) != nil }

// writeParked answers 202 with what the caller waits for.
func writeParked(w http.ResponseWriter, err error) bool {
	var p parked
	if !errors.As(err, &p) {
		return false
	}
	w.Header().Set("Preference-Applied", "respond-async")
	writeJSON(w, http.StatusAccepted, wire.Parked{Status: "pending", PromptID: p.ID, Message: p.Message, Deadline: p.Deadline})
	return true
}

// maxStatusWait bounds a look at a question that waits for its answer.
const maxStatusWait = 30 * time.Second

// getStatus tells a box how a question of its own stands; with wait=SECONDS it
// answers when that changes, at the latest after so long. "approved" means that
// the same request sent again is done.
func (s *Server) getStatus(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	a, err := s.st.Approval(r.Context(), id)
	if errors.Is(err, store.ErrNotFound) || err == nil && a.BoxID != boxOf(r).Box.ID {
		writeError(w, http.StatusNotFound, "the box has no such question", "")
		return
	}
	if seconds, _ := strconv.Atoi(r.URL.Query().Get("wait")); err == nil && seconds > 0 && store.Live(a.State) && a.State != wire.Approved {
		ctx, cancel := context.WithTimeout(r.Context(), min(maxStatusWait, time.Duration(min(seconds, 60))*time.Second))
		defer cancel()
		defer context.AfterFunc(s.serving, cancel)()
		var next store.Approval
		if next, err = store.WaitApproval(ctx, s.st, id, a.State); err == nil {
			a = next
		} else if ctx.Err() != nil {
			err = nil
		}
	}
	if err != nil {
		s.internal(w, err)
		return
	}
	status := struct {
		Status string         `json:"status"`
		Result *wire.Envelope `json:"result,omitempty"`
	}{Status: "pending"}
	switch {
	case a.State == wire.Approved:
		status.Status = "approved"
	case !store.Live(a.State):
		env := verdict(a)
		status.Status, status.Result = "done", &env
	}
	writeJSON(w, http.StatusOK, status)
}
