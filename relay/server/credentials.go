package server

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/madarco/agentbox/relay/credentials"
	"github.com/madarco/agentbox/relay/store"
)

// loginEntry is all that the audit log tells of a login.
type loginEntry struct {
	Agent         credentials.Agent `json:"agent"`
	Account       string            `json:"account,omitempty"`
	Outcome       string            `json:"outcome"`
	Dropped       int               `json:"dropped,omitempty"`
	SkippedBefore int               `json:"skippedBefore,omitempty"`
}

// postLogin judges a login that the box's agent has renewed. It goes past the
// events: into the user's backup, or nowhere.
func (s *Server) postLogin(w http.ResponseWriter, r *http.Request, box string, payload json.RawMessage) {
	record := func(e loginEntry, t credentials.Taken) error {
		e.Agent, e.Account, e.Dropped = t.Agent, t.Account, t.Dropped
		detail, err := json.Marshal(e)
		if err == nil {
			_, err = s.st.AppendAudit(r.Context(), store.Entry{BoxID: box, Actor: "box", Action: "credentials.update", Detail: detail})
		}
		return err
	}
	taken, err := s.logins.Take(box, payload, func(t credentials.Taken) error {
		if _, ok := s.refusals.take("login/" + box); !ok {
			return errTooOften
		}
		return record(loginEntry{Outcome: "accepted"}, t)
	})
	switch {
	case err == nil, errors.Is(err, credentials.ErrOlder):
	case errors.Is(err, errTooOften):
		w.Header().Set("Retry-After", "10")
		writeError(w, http.StatusTooManyRequests, err.Error(), "")
		return
	case errors.Is(err, credentials.ErrRefused):
		// Told to the box with the code of every event, which it can't better.
		if skipped, ok := s.refusals.take("login/" + box); ok {
			if err := record(loginEntry{Outcome: err.Error(), SkippedBefore: skipped}, taken); err != nil {
				s.log.Error("write down a refused login", "box", box, "err", err)
			}
		}
	default:
		s.internal(w, err)
		return
	}
	writeJSON(w, http.StatusAccepted, map[string]bool{"ok": true, "accepted": err == nil})
}

// errTooOften keeps a box from filling the audit log with logins.
var errTooOften = errors.New("the box renews logins too often")
