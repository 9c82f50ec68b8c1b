package modelserver

import (
	"cmp"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// Options say how a Server behaves.
type Options struct {
	// Key is the credential that clients must send; with "" any will do, but
	// not none.
	Key string
	// Log receives each request as a line of JSON; nil for none.
	Log io.Writer
}

// Server plays scripts to agents. It is an http.Handler and starts no goroutine.
type Server struct {
	key string
	log io.Writer

	mu       sync.Mutex
	scripts  map[string]Script
	requests []Request
	changed  chan struct{} // closed at the next request
}

// New makes a Server without scripts.
func New(o Options) *Server {
	return &Server{key: o.Key, log: o.Log, scripts: map[string]Script{}, changed: make(chan struct{})}
}

var scriptName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// Add offers a script below the path /NAME: an agent of which the API's base
// URL is below that path plays it. A script that exists is replaced.
func (s *Server) Add(name string, script Script) error {
	if !scriptName.MatchString(name) {
		return fmt.Errorf("script name %q does not match %s", name, scriptName)
	}
	if err := script.Check(); err != nil {
		return fmt.Errorf("script %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[name] = script
	return nil
}

// maxBody bounds a request, in bytes. A conversation that fills a window of a
// million tokens stays below it.
const maxBody = 32 << 20

// dialect is one of the APIs.
type dialect struct {
	decode func([]byte) (conversation, error)
	write  func(http.ResponseWriter, conversation, reply)
}

var dialects = map[string]dialect{
	"/v1/messages":         {decodeMessages, writeMessages},
	"/v1/responses":        {decodeResponses, writeResponses},
	"/v1/chat/completions": {decodeChat, writeChat},
}

// refusal is an answer with an error in the API's form.
type refusal struct {
	kind   Kind
	status int
	error
}

func refuse(status int, format string, args ...any) error {
	return refusal{kind: Refused, status: status, error: fmt.Errorf(format, args...)}
}

// ServeHTTP answers a request and records it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	record := describeRequest(r, name, "/"+path)
	// The record is complete before the agent can act on the answer's end.
	answer, err := s.answer(r, &record)
	if err != nil {
		refused := refusal{kind: Refused, status: http.StatusBadRequest, error: err}
		errors.As(err, &refused)
		record.Kind, record.Status, record.Error = refused.kind, refused.status, cut(refused.Error())
		answer = func(w http.ResponseWriter) { errorForm(r)(w, refused.status, refused.Error()) }
	}
	s.record(record)
	answer(w)
}

func describeRequest(r *http.Request, script, path string) Request {
	h := r.Header
	bearer, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	client := h.Get("User-Agent")
	agent := ""
	for _, known := range []string{"claude", "codex", "opencode"} {
		if strings.HasPrefix(client, known) {
			agent = known
		}
	}
	return Request{
		Script: script, Agent: agent, Client: client, Method: r.Method, Path: path,
		Status: http.StatusOK, Step: sideStep, Kind: Probe,
		Session:    cmp.Or(h.Get("X-Claude-Code-Session-Id"), h.Get("Thread-Id"), h.Get("X-Session-Id")),
		Credential: cmp.Or(h.Get("X-Api-Key"), bearer),
	}
}

// answer decides what to answer and completes the record.
func (s *Server) answer(r *http.Request, record *Request) (func(http.ResponseWriter), error) {
	s.mu.Lock()
	script, ok := s.scripts[record.Script]
	s.mu.Unlock()
	if !ok {
		return nil, refusal{Unknown, http.StatusNotFound, fmt.Errorf("there is no script %q", record.Script)}
	}
	if s.full() {
		return nil, refuse(http.StatusTooManyRequests, "more than %d requests were made", maxRequests)
	}
	if r.Method == http.MethodHead && record.Path == "/api/hello" {
		return func(http.ResponseWriter) {}, nil
	}
	if sent := record.Credential; sent == "" || s.key != "" && subtle.ConstantTimeCompare([]byte(sent), []byte(s.key)) != 1 {
		return nil, refuse(http.StatusUnauthorized, "the key is missing or not the one that this server expects")
	}
	dialect, known := dialects[record.Path]
	switch {
	case record.Path == "/v1/responses" && r.Method == http.MethodGet:
		return nil, refuse(http.StatusUpgradeRequired, "websockets are not served here; use POST")
	case known && r.Method == http.MethodPost:
		return s.converse(r, script, dialect, record)
	case record.Path == "/v1/messages/count_tokens" && r.Method == http.MethodPost:
		body, err := readBody(r)
		return func(w http.ResponseWriter) { writeJSON(w, http.StatusOK, countTokens(body)) }, err
	case record.Path == "/v1/models" && r.Method == http.MethodGet:
		return func(w http.ResponseWriter) { writeJSON(w, http.StatusOK, models()) }, nil
	}
	return nil, refusal{Unknown, http.StatusNotFound, fmt.Errorf("%s %s is not served here", r.Method, record.Path)}
}

func (s *Server) converse(r *http.Request, script Script, d dialect, record *Request) (func(http.ResponseWriter), error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	c, err := d.decode(body)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "decode the request: %w", err)
	}
	record.Model, record.Prompt = c.model, cut(c.prompt)
	for _, e := range c.events {
		if step, ok := stepOf(e.call); ok && e.kind == result {
			record.Result = &Result{Step: step, Output: cut(e.text), Failed: e.failed}
		}
	}
	next, err := script.next(c)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "play script %s: %w", record.Script, err)
	}
	record.Kind, record.Step = Turn, next.step
	if next.step == sideStep {
		record.Kind = Side
	}
	if next.call != nil {
		record.Tool = next.call.name
	}
	return func(w http.ResponseWriter) { d.write(w, c, next) }, nil
}

func readBody(r *http.Request) ([]byte, error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, refuse(http.StatusUnsupportedMediaType, "content encoding %q is not taken", encoding)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "read the request: %w", err)
	}
	if len(body) > maxBody {
		return nil, refuse(http.StatusRequestEntityTooLarge, "the request is larger than %d bytes", maxBody)
	}
	return body, nil
}

// errorForm is the form of errors that the client of a request understands.
func errorForm(r *http.Request) func(http.ResponseWriter, int, string) {
	if r.Header.Get("Anthropic-Version") != "" || strings.HasPrefix(r.UserAgent(), "claude") || strings.HasSuffix(r.URL.Path, "/v1/messages") {
		return messagesError
	}
	return openAIError
}

// models lists one model, in a form that both vendors' clients read.
func models() object {
	return object{
		"object": "list", "has_more": false, "first_id": "scripted", "last_id": "scripted",
		"data": []object{{
			"id": "scripted", "object": "model", "created": created, "owned_by": "agentbox",
			"type": "model", "display_name": "Scripted", "created_at": "2026-01-01T00:00:00Z",
		}},
	}
}
