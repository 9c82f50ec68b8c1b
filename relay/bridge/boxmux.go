package bridge

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

const (
	// maxBody bounds what the box's tools send, as on the box channel.
	maxBody = 1 << 20
	// maxResult bounds a result: store.MaxResultBytes, written as JSON strings.
	maxResult = 8 << 20
)

// Handler serves both sides: /rpc and /events to the box's own tools, which come
// from the box itself, and /bridge/ to the host.
func (b *Box) Handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, wire.Health{OK: true}) })
	m.HandleFunc("POST /rpc", b.fromBox(b.postRPC))
	m.HandleFunc("GET /rpc/status/{id}", b.fromBox(b.getStatus))
	m.HandleFunc("POST /events", b.fromBox(b.postEvent))
	m.HandleFunc("/git/", b.fromBox(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "git's own protocol does not pass the bridge; use `agentbox-ctl git push`, pull and fetch", http.StatusNotImplemented)
	}))
	m.HandleFunc("GET /bridge/healthz", b.fromHost(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, b.health()) }))
	m.HandleFunc("GET /bridge/poll", b.fromHost(b.getPoll))
	m.HandleFunc("POST /bridge/action-result", b.fromHost(b.postResult))
	m.HandleFunc("POST /bridge/heartbeat", b.fromHost(b.postHeartbeat))
	m.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { writeError(w, http.StatusNotFound, "not found") })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			writeError(w, http.StatusForbidden, "requests of web pages are not served")
			return
		}
		m.ServeHTTP(w, r)
	})
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// fromBox lets through who has the box's token and comes from the box itself.
func (b *Box) fromBox(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			writeError(w, http.StatusNotFound, "not found")
			return
		}
		b.guard(w, r, b.own, next)
	}
}

func (b *Box) fromHost(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { b.guard(w, r, b.host, next) }
}

func (b *Box) guard(w http.ResponseWriter, r *http.Request, hash [32]byte, next http.HandlerFunc) {
	if !matches(bearer(r), hash) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		writeError(w, http.StatusUnauthorized, "not a token of this route")
		return
	}
	next(w, r)
}

func (b *Box) postRPC(w http.ResponseWriter, r *http.Request) {
	var req wire.Request
	if !readJSON(w, r, maxBody, &req) {
		return
	}
	if req.Method == "" || len(req.Method) > 100 || len(req.RequestID) > 100 {
		writeError(w, http.StatusBadRequest, "method is missing, or a name is too long")
		return
	}
	if req.Method == "browser.open" {
		b.openLink(w, req)
		return
	}
	env, err := b.queue.do(r.Context(), b.boxID, req)
	switch {
	case errors.Is(err, errConflict):
		writeError(w, http.StatusConflict, err.Error())
	case err != nil: // the caller is gone
	case env.ExitCode == wire.ExitOK:
		writeJSON(w, http.StatusOK, env)
	default:
		writeJSON(w, http.StatusInternalServerError, env)
	}
}

// openLink answers at once and leaves the link for the host, which may ask the
// user. Nobody waits for what comes of it.
func (b *Box) openLink(w http.ResponseWriter, req wire.Request) {
	var params struct {
		URL string `json:"url"`
	}
	err := wire.Decode(req.Params, &params)
	u, parseErr := url.Parse(params.URL)
	if err != nil || parseErr != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		writeJSON(w, http.StatusBadRequest, wire.Envelope{ExitCode: wire.ExitBadRequest, Stderr: "url is no http or https address\n"})
		return
	}
	if err := b.queue.offer(b.boxID, req); err != nil {
		writeError(w, http.StatusConflict, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, wire.Envelope{})
}

// getStatus tells how a parked request stands, by its action's id or its own.
func (b *Box) getStatus(w http.ResponseWriter, r *http.Request) {
	result, known := b.queue.status(r.PathValue("id"))
	switch {
	case !known:
		writeError(w, http.StatusNotFound, "the box has no such request")
	case result == nil:
		writeJSON(w, http.StatusOK, map[string]any{"status": "pending"})
	default:
		writeJSON(w, http.StatusOK, map[string]any{"status": "done", "result": result})
	}
}

func (b *Box) postEvent(w http.ResponseWriter, r *http.Request) {
	var e wire.PostEvent
	if !readJSON(w, r, maxBody, &e) {
		return
	}
	id, err := b.post(e)
	switch {
	case errors.Is(err, store.ErrTooLarge):
		writeError(w, http.StatusRequestEntityTooLarge, "the event is too large")
	case err != nil:
		writeError(w, http.StatusBadRequest, err.Error())
	case id != 0:
		writeJSON(w, http.StatusAccepted, map[string]int64{"id": id})
	case e.Type == "box-status":
		writeJSON(w, http.StatusAccepted, map[string]bool{"ok": true})
	default: // a login; what the host makes of it, it alone knows
		writeJSON(w, http.StatusAccepted, map[string]bool{"ok": true, "accepted": true})
	}
}

// getPoll hands out what the host has not seen, and waits for it up to wait
// seconds. The newest poll alone is held: an older one, whose host may be gone,
// ends empty, so that nothing is handed to a dead connection.
func (b *Box) getPoll(w http.ResponseWriter, r *http.Request) {
	seen, hold, err := readPoll(r.URL.Query())
	if err != nil {
		writeError(w, http.StatusBadRequest, "since, wait, status and credentials must be numbers")
		return
	}
	turn := b.begin()
	ended := time.NewTimer(hold)
	defer ended.Stop()
	for {
		changed := b.changed.wait()
		if b.superseded(turn) {
			writeJSON(w, http.StatusOK, Poll{Instance: b.instance, Actions: []Action{}, Events: []wire.Event{}, Cursor: seen.Events, StatusVersion: seen.Status, CredentialsVersion: seen.Credentials})
			return
		}
		p, next := b.collect(seen)
		if p.brings() || hold == 0 || seen.Instance != "" && p.Instance != seen.Instance {
			writeJSON(w, http.StatusOK, p)
			return
		}
		due := make(<-chan time.Time)
		if !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-changed:
		case <-due:
		case <-ended.C:
			hold = 0 // one last look, which is answered
		case <-r.Context().Done():
			return
		}
	}
}

func readPoll(q url.Values) (seen Cursor, hold time.Duration, err error) {
	seen.Instance = q.Get("instance")
	var seconds int64
	for name, dst := range map[string]*int64{"since": &seen.Events, "status": &seen.Status, "credentials": &seen.Credentials, "wait": &seconds} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		n, parseErr := strconv.ParseInt(text, 10, 64)
		if parseErr != nil || n < 0 {
			return seen, 0, errors.New(name + " is no number")
		}
		*dst = n
	}
	return seen, time.Duration(min(seconds, int64(holdMost/time.Second))) * time.Second, nil
}

func (b *Box) postResult(w http.ResponseWriter, r *http.Request) {
	var result Result
	if !readJSON(w, r, maxResult, &result) {
		return
	}
	switch {
	case result.ID == "":
		writeError(w, http.StatusBadRequest, "id is missing")
	case !b.queue.resolve(result.ID, result.Envelope):
		writeError(w, http.StatusNotFound, "nobody waits for this action")
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (b *Box) postHeartbeat(w http.ResponseWriter, r *http.Request) {
	var beat Beat
	if readJSON(w, r, maxBody, &beat) {
		writeJSON(w, http.StatusOK, Wanted{b.queue.heartbeat(beat.IDs)})
	}
}

// readJSON decodes a capped body, or answers why not.
func readJSON(w http.ResponseWriter, r *http.Request, most int64, dst any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		writeError(w, http.StatusRequestEntityTooLarge, "the body is too large")
		return false
	case err != nil:
		writeError(w, http.StatusBadRequest, "the body ends too early")
		return false
	}
	if err := wire.Decode(body, dst); err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return false
	}
	return true
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // who asked may be gone
}

func writeError(w http.ResponseWriter, code int, text string) {
	writeJSON(w, code, wire.Error{Error: text})
}
