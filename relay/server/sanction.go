package server

import (
	"net/http"
	"slices"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
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
	reg, repo, ok := s.boxRepository(w, r, body.BoxID, body.RepoKey)
	if !ok {
		return
	}
	repo.Sanctioned = body.Branch
	if body.Branch == repo.Branch {
		repo.Sanctioned = ""
	}
	reg.Box.Repos[slices.IndexFunc(reg.Box.Repos, func(each core.Repo) bool { return each.Key == repo.Key })] = repo
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
