package gitremote

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Options say what a Remote serves.
type Options struct {
	// Root is the folder that holds the bare repositories.
	Root string
	// User and Password are asked for by basic auth.
	User, Password string
	// Log receives each request as a line of JSON once it was answered; nil for none.
	Log io.Writer
}

// Remote serves the repositories below a folder. It is an http.Handler.
type Remote struct {
	options Options
	running sync.WaitGroup

	mu       sync.Mutex
	requests []Request
}

// Request is one answered request.
type Request struct {
	Method   string `json:"method"`
	Path     string `json:"path"`
	Query    string `json:"query,omitempty"`
	Protocol string `json:"protocol,omitempty"` // the Git-Protocol header
	Encoding string `json:"encoding,omitempty"` // the Content-Encoding header
	Chunked  bool   `json:"chunked,omitempty"`
	Status   int    `json:"status"`
}

// Update is one ref that a push moved.
type Update struct{ Old, New, Ref string }

// New makes a Remote.
func New(o Options) *Remote { return &Remote{options: o} }

var repoName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*\.git$`)

// Path is the folder of a repository.
func (r *Remote) Path(name string) string { return filepath.Join(r.options.Root, name) }

// Create makes an empty bare repository, whose name ends in ".git" and whose
// HEAD is main. One that exists is kept.
func (r *Remote) Create(ctx context.Context, name string) error {
	if !repoName.MatchString(name) {
		return fmt.Errorf("repository name %q does not match %s", name, repoName)
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", r.Path(name)},
		{"-C", r.Path(name), "config", "http.receivepack", "true"},
		{"-C", r.Path(name), "config", "uploadpack.allowFilter", "true"},
		{"-C", r.Path(name), "config", "receive.advertisePushOptions", "true"},
	} {
		if out, err := exec.CommandContext(ctx, "git", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("make the remote repository %s: %w: %s", name, err, bytes.TrimSpace(out))
		}
	}
	return r.Hook(name, "post-receive", "exec cat >> pushed.log")
}

// Hook installs a shell script as a hook of a repository; an empty script
// removes the hook. The hook post-receive is the remote's own.
func (r *Remote) Hook(name, hook, script string) error {
	file := filepath.Join(r.Path(name), "hooks", hook)
	if script == "" {
		return os.Remove(file)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte("#!/bin/sh\nset -eu\n"+script+"\n"), 0o755)
}

// Pushed lists what pushes to a repository have moved, oldest first.
func (r *Remote) Pushed(name string) ([]Update, error) {
	data, err := os.ReadFile(filepath.Join(r.Path(name), "pushed.log"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var updates []Update
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("pushed.log of %s: malformed line %q", name, line)
		}
		updates = append(updates, Update{Old: fields[0], New: fields[1], Ref: fields[2]})
	}
	return updates, nil
}

// Requests lists what was asked so far, in the order of the answers.
func (r *Remote) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Close waits for git processes that still work. The server in front must
// have stopped taking requests.
func (r *Remote) Close() { r.running.Wait() }

// ServeHTTP answers one request of a git client.
func (r *Remote) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	answer := &statusWriter{ResponseWriter: w}
	r.serve(answer, req)
	r.record(Request{
		Method: req.Method, Path: req.URL.Path, Query: req.URL.RawQuery,
		Protocol: req.Header.Get("Git-Protocol"), Encoding: req.Header.Get("Content-Encoding"),
		Chunked: req.ContentLength < 0, Status: answer.status,
	})
}

func (r *Remote) serve(w http.ResponseWriter, req *http.Request) {
	if !r.known(req) {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "user and password please", http.StatusUnauthorized)
		return
	}
	repo, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	if !repoName.MatchString(repo) {
		http.NotFound(w, req)
		return
	}
	r.running.Add(1)
	defer r.running.Done()
	if err := r.backend(w, req); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (r *Remote) known(req *http.Request) bool {
	user, password, ok := req.BasicAuth()
	rightUser := subtle.ConstantTimeCompare([]byte(user), []byte(r.options.User))
	rightPassword := subtle.ConstantTimeCompare([]byte(password), []byte(r.options.Password))
	return ok && rightUser&rightPassword == 1
}

func (r *Remote) record(req Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, req)
	if r.options.Log == nil {
		return
	}
	if err := json.NewEncoder(r.options.Log).Encode(req); err != nil {
		fmt.Fprintln(os.Stderr, "gitremote: write the request log:", err)
	}
}

// statusWriter remembers the answer's status and sends every write on at once,
// so that progress of a push is seen while it lasts.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	if err == nil {
		err = http.NewResponseController(w.ResponseWriter).Flush()
	}
	return n, err
}

// Unwrap lets http.ResponseController reach the server's own writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
