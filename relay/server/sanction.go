package server

import (
	"errors"
	"net/http"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// postSanction books the branch that the user has put a box on: from now on
// policy lets the box push and land it like its own, as far as it only moves
// forward. The name comes from the user's command line; no box has a say in it.
func (s *Server) postSanction(w http.ResponseWriter, r *http.Request) {
	var body wire.SanctionBranch
	if !readJSON(w, r, &body) {
		return
	}
	s.registering.Lock()
	defer s.registering.Unlock()
	reg, err := s.st.Box(r.Context(), body.BoxID)
	if errors.Is(err, store.ErrNotFound) {
		writeError(w, http.StatusNotFound, "the relay does not know the box", "start it with: agentbox start")
		return
	} else if err != nil {
		s.internal(w, err)
		return
	}
	found := false
	for i := range reg.Box.Repos {
		repo := &reg.Box.Repos[i]
		if repo.Key != body.RepoKey && (body.RepoKey != "" || repo.Kind != "root") {
			continue
		}
		found, repo.Sanctioned = true, body.Branch
		if body.Branch == repo.Branch {
			repo.Sanctioned = ""
		}
	}
	if !found {
		writeError(w, http.StatusNotFound, "the box has no such repository", "")
		return
	}
	if err := s.audit(r, body.BoxID, "box.sanction", body); err != nil {
		s.internal(w, err)
		return
	}
	if _, err := s.st.RegisterBox(r.Context(), reg.Box, reg.Token); err != nil {
		s.internal(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
