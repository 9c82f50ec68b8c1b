package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// listed is what the user sees unless all is asked for: what waits, what was
// allowed and not used yet, what runs, and what nobody answered in time.
var listed = []wire.ApprovalState{wire.Pending, wire.Approved, wire.Executing, wire.Expired}

func (s *Server) getPrompts(w http.ResponseWriter, r *http.Request) {
	states := listed
	if r.URL.Query().Get("all") == "1" {
		states = nil
	}
	approvals, err := s.prompts(r.Context(), r.URL.Query().Get("boxId"), states)
	if err != nil {
		s.internal(w, err)
		return
	}
	writeJSON(w, http.StatusOK, wire.Prompts{Prompts: approvals})
}

func (s *Server) prompts(ctx context.Context, boxID string, states []wire.ApprovalState) ([]wire.Approval, error) {
	rows, err := s.st.Approvals(ctx, boxID, states...)
	out := make([]wire.Approval, 0, len(rows))
	newest := map[string]string{} // id by digest, which covers the box
	for _, row := range rows {
		newest[row.Digest] = row.ID
	}
	for _, row := range rows {
		// What nobody answered in time goes when it is asked again.
		if states == nil || row.State != wire.Expired || newest[row.Digest] == row.ID {
			out = append(out, row.Approval)
		}
	}
	return out, err
}

func (s *Server) postAnswer(w http.ResponseWriter, r *http.Request) {
	var body wire.Answer
	if !readJSON(w, r, &body) {
		return
	}
	if body.ID == "" || body.Answer != "y" && body.Answer != "n" || len(body.Note) > maxNote {
		writeError(w, http.StatusBadRequest, `an answer has an id, "y" or "n", and a note of at most 2000 bytes`, "")
		return
	}
	a, err := s.st.AnswerApproval(r.Context(), body.ID, store.Reply{
		Yes: body.Answer == "y", Digest: body.Digest, By: operator(r).Actor(), Note: body.Note,
	})
	switch {
	case err == nil && a.State == wire.Approved && s.ownWork(a.Method):
		writeJSON(w, http.StatusOK, s.answered(r.Context(), a))
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, store.ErrNotFound):
		writeError(w, http.StatusNotFound, "there is no approval "+core.Untrusted(body.ID).Quote(), "list them with: agentbox agent approvals")
	case errors.Is(err, store.ErrExpired):
		writeError(w, http.StatusConflict, "the approval has expired", "let the box ask again")
	case errors.Is(err, store.ErrSettled):
		writeError(w, http.StatusConflict, "the approval was answered already", "list them with: agentbox agent approvals")
	case errors.Is(err, store.ErrConflict):
		writeError(w, http.StatusConflict, "the digest is that of another request", "look at the approval again before answering")
	default:
		s.internal(w, err)
	}
}

const maxNote = 2000

// maxEvents is how many events one answer holds.
const maxEvents = 1000

// getEvents lists events after since: a number for one box, a cursor for all.
// With follow=1 it goes on as a stream.
func (s *Server) getEvents(w http.ResponseWriter, r *http.Request) {
	feed, err := s.feed(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, "since is neither a number of this box's nor a cursor of this relay", "")
		return
	}
	if r.URL.Query().Get("follow") == "1" {
		s.follow(w, r, feed)
		return
	}
	events, next, err := feed.read(r.Context())
	switch {
	case errors.Is(err, store.ErrNotFound):
		writeError(w, http.StatusBadRequest, "since is no cursor of this relay", "")
	case err != nil:
		s.internal(w, err)
	default:
		writeJSON(w, http.StatusOK, wire.EventList{Events: append([]wire.Event{}, events...), Next: next})
	}
}

func (s *Server) follow(w http.ResponseWriter, r *http.Request, feed *feed) {
	out, err := newStream(w)
	if err != nil {
		return
	}
	for {
		changed, stop := s.st.Watch(feed.topic)
		events, next, err := feed.read(r.Context())
		for _, e := range events {
			if err == nil {
				err = out.send(&next, "event", e)
			}
		}
		if err == nil && len(events) == 0 {
			err = waitPing(r.Context(), out, changed, nil)
		}
		stop()
		if err != nil {
			return
		}
	}
}
