package server

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// BoxHandler serves the channel that only this box can reach.
func (s *Server) BoxHandler(boxID string) http.Handler {
	return s.boxRouter(func(r *http.Request) (store.Registration, error) {
		reg, err := s.st.Box(r.Context(), boxID)
		if err != nil {
			return reg, err
		}
		hash := store.HashToken(bearer(r))
		if subtle.ConstantTimeCompare(hash[:], reg.Token[:]) != 1 {
			return reg, errToken
		}
		return reg, nil
	})
}

// SharedBoxHandler serves a TCP channel that all boxes share, where the token
// alone tells them apart. hosts are the Host headers that it answers to.
func (s *Server) SharedBoxHandler(hosts []string) http.Handler {
	boxes := s.boxRouter(func(r *http.Request) (store.Registration, error) {
		if bearer(r) == "" {
			return store.Registration{}, errToken
		}
		return s.st.BoxByToken(r.Context(), store.HashToken(bearer(r)))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(hosts, r.Host) {
			writeError(w, http.StatusMisdirectedRequest, "this is not the host that you look for", "")
			return
		}
		boxes.ServeHTTP(w, r)
	})
}

var errToken = errors.New("not the box's token")

// identify finds the box that sends a request.
type identify func(*http.Request) (store.Registration, error)

func (s *Server) boxRouter(who identify) chi.Router {
	m := chi.NewRouter()
	m.Use(s.caught, promptBodies, refuseBrowsers, refuseAdmin, literalPaths)
	m.NotFound(notFound)
	m.MethodNotAllowed(notAllowed)
	m.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, wire.Health{OK: true}) })
	m.Group(func(m chi.Router) {
		m.Use(s.authenticate(who), bounded(&slots{}))
		m.Post("/rpc", s.postRPC)
		m.Get("/rpc/status/{id}", s.getStatus)
		m.Post("/events", s.postEvent)
		m.Get("/git/{key}/info/refs", func(w http.ResponseWriter, r *http.Request) {
			if e, ok := s.endpoint(w, r); ok {
				e.InfoRefs(w, r)
			}
		})
		m.Post("/git/{key}/git-receive-pack", func(w http.ResponseWriter, r *http.Request) {
			if e, ok := s.endpoint(w, r); ok {
				e.ReceivePack(w, r)
			}
		})
		m.Post("/git/{key}/git-upload-pack", func(w http.ResponseWriter, r *http.Request) {
			if e, ok := s.endpoint(w, r); ok {
				e.UploadPack(w, r)
			}
		})
	})
	return m
}

// refuseBrowsers turns away what a page sends: no client of ours sets Origin.
func refuseBrowsers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			writeError(w, http.StatusForbidden, "requests of web pages are not served", "")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuseAdmin says no where the operator's socket has its routes: there are
// none here, and whoever looks for them should read why.
func refuseAdmin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/admin" || strings.HasPrefix(r.URL.Path, "/admin/") {
			writeError(w, http.StatusForbidden, "a box has no way to the operator's routes", "")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// literalPaths refuses every target that has a second way to be read.
func literalPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.Path; r.URL.RawPath != "" || strings.ContainsAny(r.URL.EscapedPath(), `%\;`) || path.Clean(p) != p {
			writeError(w, http.StatusNotFound, "not found", "")
			return
		}
		next.ServeHTTP(w, r)
	})
}

type boxKey struct{}

// boxOf is the box that authenticate has found.
func boxOf(r *http.Request) store.Registration {
	return r.Context().Value(boxKey{}).(store.Registration)
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// authenticate lets a request through as its box, and writes down who tried.
func (s *Server) authenticate(who identify) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reg, err := who(r)
			switch {
			case errors.Is(err, errToken), errors.Is(err, store.ErrNotFound):
				s.auditRefusal(r, reg.Box.ID)
				w.Header().Set("WWW-Authenticate", "Bearer")
				writeError(w, http.StatusUnauthorized, "not a token of this channel", "")
			case err != nil:
				s.internal(w, err)
			default:
				next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), boxKey{}, reg)))
			}
		})
	}
}

// auditRefusal writes down a wrong token, as often as the limiter lets it: the
// audit log is not for a box to fill.
func (s *Server) auditRefusal(r *http.Request, channel string) {
	skipped, ok := s.refusals.take(channel)
	if !ok {
		return
	}
	owner := ""
	if token := bearer(r); token != "" {
		if reg, err := s.st.BoxByToken(r.Context(), store.HashToken(token)); err == nil {
			owner = reg.Box.ID
		}
	}
	detail, err := json.Marshal(map[string]any{"channel": channel, "tokenOf": owner, "hasToken": bearer(r) != "", "skippedBefore": skipped})
	if err == nil {
		_, err = s.st.AppendAudit(r.Context(), store.Entry{BoxID: channel, Actor: "box", Action: "channel.refuse", Detail: detail})
	}
	if err != nil {
		s.log.Error("write down a refused token", "err", err)
	}
}

func (s *Server) postRPC(w http.ResponseWriter, r *http.Request) {
	var req wire.Request
	if !readJSON(w, r, &req) {
		return
	}
	if req.Method == "" || len(req.Method) > 100 || len(req.RequestID) > 100 {
		writeError(w, http.StatusBadRequest, "method is missing, or a name is too long", "")
		return
	}
	box := boxOf(r).Box
	env, err := s.Dispatch(preferring(r), box, req)
	switch {
	case writeParked(w, err):
	case err == nil && env.ExitCode == wire.ExitOK:
		writeJSON(w, http.StatusOK, env)
	case err == nil:
		// Clients of old read the envelope whatever the status.
		writeJSON(w, http.StatusInternalServerError, env)
	case errors.Is(err, ErrUnknownMethod):
		writeJSON(w, http.StatusNotImplemented, struct {
			wire.Error
			Method string `json:"method"`
		}{wire.Error{Error: ErrUnknownMethod.Error()}, req.Method})
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrExists):
		writeError(w, http.StatusConflict, "the request id belongs to another request, or the same one is running", "use a new requestId for every request")
	case errors.Is(err, errStopping):
		w.Header().Set("Retry-After", "1")
		writeError(w, http.StatusServiceUnavailable, err.Error(), "")
	case r.Context().Err() != nil: // nobody reads the answer
	default:
		s.internal(w, err)
	}
}
