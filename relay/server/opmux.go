package server

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/bridge"
	"github.com/madarco/agentbox/relay/store"
)

// OperatorHandler serves the user's own socket. It answers only connections
// that WithPeer has recognised.
func (s *Server) OperatorHandler() http.Handler { return s.operatorRouter() }

func (s *Server) operatorRouter() chi.Router {
	m := chi.NewRouter()
	m.Use(s.caught, promptBodies, refuseBrowsers, refuseForwarded, onlyPeers, s.notStopping, onlyJSON, s.makeRoom)
	m.NotFound(notFound)
	m.MethodNotAllowed(notAllowed)
	m.Get("/healthz", s.getHealth)
	m.Route("/admin", func(m chi.Router) {
		m.Post("/register-box", s.postRegister)
		m.Post("/forget-box", s.postForget)
		m.Post("/sanction", s.postSanction)
		m.Get("/registry", s.getRegistry)
		m.Get("/events", s.getEvents)
		m.Get("/prompts", s.getPrompts)
		m.Get("/prompts/stream", s.streamPrompts)
		m.Post("/prompts/answer", s.postAnswer)
		m.Get("/box-status", s.getStatusOf)
		m.Post("/notices/set", s.postNotice)
		m.Post("/notices/clear", s.postClearNotice)
		m.Post("/act", s.postAct)
		m.Post("/git/push", s.postPush)
		m.Post("/land", s.postLand)
		m.Post("/land/ask", s.postAsk)
		m.Get("/landings", s.getLandings)
		m.Get("/audit", s.getAudit)
		m.Post("/shutdown", s.postShutdown)
	})
	return m
}

// operator is the peer of a request, which onlyPeers has let through.
func operator(r *http.Request) Peer { return r.Context().Value(peerKey{}).(Peer) }

// refuseForwarded turns away what somebody passes on for somebody else, or what
// carries a box's token: the user's commands connect themselves.
func refuseForwarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || name == "Authorization" || strings.HasPrefix(name, "X-Forwarded-") {
				writeError(w, http.StatusForbidden, "only the user's own commands are served here, and none that are passed on", "")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func onlyPeers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := r.Context().Value(peerKey{}).(Peer); !ok {
			writeError(w, http.StatusForbidden, errPeer.Error(), "")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// notStopping answers 503 once the relay ends, so that a command knows to wait
// for the next one.
func (s *Server) notStopping(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.serving.Err() != nil {
			w.Header().Set("Retry-After", "1")
			writeError(w, http.StatusServiceUnavailable, errStopping.Error(), "")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// handinType is the media type of a stream of package handin.
const handinType = "application/x-agentbox-handin"

// onlyJSON holds every POST to a media type that no form of a page can send.
func onlyJSON(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			want := "application/json"
			if r.URL.Path == "/admin/land" {
				want = handinType
			}
			if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || got != want {
				writeError(w, http.StatusUnsupportedMediaType, "the content type must be "+want, "")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// makeRoom lets what the user wants done be written down also on a full disk.
func (s *Server) makeRoom(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if err := s.ballast.Drop(s.disk, string(s.cfg.Home)); err != nil {
				s.log.Warn("make room", "err", err)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// HoldRoom takes up the room that the user's own requests fall back on. Call it
// at the start and now and then.
func (s *Server) HoldRoom() error { return s.ballast.Hold(s.disk, string(s.cfg.Home)) }

func (s *Server) getHealth(w http.ResponseWriter, r *http.Request) {
	boxes, err := s.st.Boxes(r.Context())
	if err != nil {
		s.internal(w, err)
		return
	}
	pending, err := s.st.PendingApprovals(r.Context(), "")
	if err != nil {
		s.internal(w, err)
		return
	}
	h := wire.Health{OK: true, PID: os.Getpid(), Version: s.cfg.Version, Boxes: len(boxes), Pending: pending, Approvals: "on"}
	if s.cfg.ApprovalsOff {
		h.Approvals = "off"
	}
	for _, reg := range boxes {
		if s.settings(reg.Box).All {
			h.Unasked = append(h.Unasked, reg.Box.Name)
		}
	}
	writeJSON(w, http.StatusOK, h)
}

func (s *Server) postRegister(w http.ResponseWriter, r *http.Request) {
	var body wire.RegisterBox
	if !readJSON(w, r, &body) {
		return
	}
	if err := checkRegistration(body); err != "" {
		writeError(w, http.StatusBadRequest, err, "")
		return
	}
	if body.Bridge != nil {
		if err := bridge.CheckLink(*body.Bridge); err != nil {
			writeError(w, http.StatusBadRequest, err.Error(), "")
			return
		}
	}
	if err := s.audit(r, body.Box.ID, "box.register", body.Box); err != nil {
		s.internal(w, err)
		return
	}
	s.registering.Lock()
	defer s.registering.Unlock()
	if _, err := s.st.RegisterBox(r.Context(), body.Box, store.HashToken(body.Token)); errors.Is(err, store.ErrExists) {
		writeError(w, http.StatusConflict, "another box has this token", "make a new token for every box")
		return
	} else if err != nil {
		s.internal(w, err)
		return
	}
	if err := s.OpenChannel(body.Box); err != nil {
		s.internal(w, err)
		return
	}
	if body.Bridge != nil {
		if err := s.bridges.Register(body.Box.ID, *body.Bridge); err != nil {
			s.internal(w, err)
			return
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// checkRegistration says what is wrong with a registration, "" if nothing is.
// The names were checked when they were decoded.
func checkRegistration(b wire.RegisterBox) string {
	if !core.ValidBoxID(b.Box.ID) || b.Box.Name == "" {
		return "the box has no valid id or name"
	}
	if len(b.Token) < 32 || len(b.Token) > 256 {
		return "the token must have 32 to 256 bytes"
	}
	seen := map[string]bool{}
	for _, repo := range b.Box.Repos {
		switch {
		case !core.ValidRepoKey(repo.Key) || seen[repo.Key]:
			return "a repository has no valid key, or one stands twice"
		case repo.Branch == "" || repo.BoxPath == "" || repo.CommonDir == "":
			return "a repository lacks branch, containerPath or commonDir"
		case repo.ObjectFormat != "sha1" && repo.ObjectFormat != "sha256":
			return "a repository has an unknown objectFormat"
		}
		seen[repo.Key] = true
	}
	return ""
}

func (s *Server) postForget(w http.ResponseWriter, r *http.Request) {
	var body wire.ForgetBox
	if !readJSON(w, r, &body) {
		return
	}
	if !core.ValidBoxID(body.BoxID) {
		writeError(w, http.StatusBadRequest, "boxId is no box id", "")
		return
	}
	if err := s.audit(r, body.BoxID, "box.forget", body); err != nil {
		s.internal(w, err)
		return
	}
	if _, err := s.st.ForgetBox(r.Context(), body.BoxID); err != nil {
		s.internal(w, err)
		return
	}
	s.closeChannel(body.BoxID)
	s.notices.clear(func(n wire.Notice) bool { return n.BoxID == body.BoxID })
	if err := s.bridges.Forget(body.BoxID); err != nil {
		s.log.Error("forget a box's bridge", "box", body.BoxID, "err", err)
	}
	if err := s.ledger.Forget(body.BoxID); err != nil {
		s.log.Error("close a box's account", "box", body.BoxID, "err", err)
	}
	w.WriteHeader(http.StatusNoContent)
}

// audit writes down what the operator is about to do.
func (s *Server) audit(r *http.Request, boxID, action string, detail any) error {
	raw, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	_, err = s.st.AppendAudit(r.Context(), store.Entry{BoxID: boxID, Actor: operator(r).Actor(), Action: action, Detail: raw})
	return err
}

func (s *Server) getRegistry(w http.ResponseWriter, r *http.Request) {
	regs, err := s.st.Boxes(r.Context())
	if err != nil {
		s.internal(w, err)
		return
	}
	out := wire.Registry{Boxes: []wire.RegisteredBox{}}
	for _, reg := range regs {
		out.Boxes = append(out.Boxes, wire.RegisteredBox{Box: reg.Box, RegisteredAt: reg.RegisteredAt})
	}
	writeJSON(w, http.StatusOK, out)
}

func (s *Server) getAudit(w http.ResponseWriter, r *http.Request) {
	since, err := number(r, "since", 0)
	limit, limitErr := number(r, "limit", 1000)
	if err != nil || limitErr != nil || limit < 1 || limit > 10_000 {
		writeError(w, http.StatusBadRequest, "since and limit must be numbers, limit at most 10000", "")
		return
	}
	entries, err := s.st.Audit(r.Context(), since, int(limit))
	if err != nil {
		s.internal(w, err)
		return
	}
	writeJSON(w, http.StatusOK, wire.AuditList{Entries: entries})
}

// number reads a query parameter, or gives the value for none.
func number(r *http.Request, name string, none int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return none, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && n < 0 {
		err = strconv.ErrRange
	}
	return n, err
}

func (s *Server) postShutdown(w http.ResponseWriter, r *http.Request) {
	if err := s.audit(r, "", "relay.shutdown", nil); err != nil {
		s.log.Error("write down the shutdown", "err", err) // stopping must always work
	}
	writeJSON(w, http.StatusAccepted, wire.Health{OK: true, PID: os.Getpid()})
	s.cfg.Shutdown()
}
