package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/madarco/agentbox/core/wire"
)

// readTime is how long a body may take to come, unless the route is unhurried.
const readTime = 30 * time.Second

// promptBodies gives up on bodies that come too slowly, also on those that the
// server reads past after a refusal.
func promptBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTime)) // not of every writer
		}
		next.ServeHTTP(w, r)
	})
}

// unhurried lets a body take its time, and a caller wait after it has come.
func unhurried(w http.ResponseWriter) { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }

// readJSON decodes a capped body, or answers why not.
func readJSON(w http.ResponseWriter, r *http.Request, dst any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		writeError(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body exceeds %d bytes", tooLarge.Limit), "")
		return false
	case errors.Is(err, os.ErrDeadlineExceeded):
		writeError(w, http.StatusRequestTimeout, "the body came too slowly", "")
		return false
	case err != nil:
		writeError(w, http.StatusBadRequest, "the body ends too early", "")
		return false
	}
	unhurried(w)
	if err := wire.Decode(body, dst); err != nil {
		writeError(w, http.StatusBadRequest, err.Error(), "")
		return false
	}
	return true
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		code, body = http.StatusInternalServerError, []byte(`{"error":"the answer can't be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n'))
}

func writeError(w http.ResponseWriter, code int, text, hint string) {
	writeJSON(w, code, wire.Error{Error: text, Hint: hint})
}

// internal answers what is nobody's fault outside; the words are in the log.
func (s *Server) internal(w http.ResponseWriter, err error) {
	s.log.Error("request failed", "err", err)
	writeError(w, http.StatusInternalServerError, "internal error", "look into the relay's log")
}

// caught answers a request whose handler panics, and goes on.
func (s *Server) caught(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				panic(p)
			default:
				s.internal(w, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func notFound(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusNotFound, struct {
		wire.Error
		Route string `json:"route"`
	}{wire.Error{Error: "not found"}, r.Method + " " + r.URL.Path})
}

func notAllowed(w http.ResponseWriter, _ *http.Request) {
	writeError(w, http.StatusMethodNotAllowed, "method not allowed", "")
}
