package forge

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// emulator is a small GitHub: one repository o/r, over TLS, with the parts of
// GraphQL that gh uses told apart by the names of its operations
// (docs.github.com/graphql, docs.github.com/rest).
type emulator struct {
	*httptest.Server

	mu sync.Mutex
	record
	head string // the commit of every pull request
}

// record is what reached the emulator.
type record struct {
	pulls    []map[string]any // what createPullRequest took
	merges   []map[string]any
	comments []map[string]any
	reviews  []map[string]any // review comments, over REST
	reruns   []string
	foreign  []string
	bodies   []string
}

// seen is the record so far. Only what was appended counts: nothing in it is
// changed again.
func (e *emulator) seen() record {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.record
}

const emulatorToken = "gho_emulated"

func newEmulator(t *testing.T) *emulator {
	t.Helper()
	e := &emulator{head: oid}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/graphql", e.graphql)
	mux.HandleFunc("GET /api/v3/repos/o/r/compare/{range...}", e.compare)
	mux.HandleFunc("GET /api/v3/repos/o/r/actions/runs/{id}", e.run)
	mux.HandleFunc("POST /api/v3/repos/o/r/actions/runs/{id}/rerun", e.rerun)
	mux.HandleFunc("GET /api/v3/repos/o/r/actions/workflows/{id}", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"id": 1, "name": "ci"})
	})
	mux.HandleFunc("POST /api/v3/repos/o/r/pulls/{n}/comments", e.review)
	mux.HandleFunc("GET /api/v3/repos/o/r/pulls/{n}/comments", func(w http.ResponseWriter, _ *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		reply(w, http.StatusOK, e.reviews)
	})
	mux.HandleFunc("GET /api/v3/{$}", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, map[string]any{}) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.foreign = append(e.foreign, r.Method+" "+r.URL.Path)
		e.mu.Unlock()
		reply(w, http.StatusNotFound, map[string]any{"message": "Not Found"})
	})
	e.Server = httptest.NewTLSServer(e.known(mux))
	t.Cleanup(e.Close)
	cert := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", cert)
	t.Setenv("GH_HOST", e.host())
	t.Setenv("GH_ENTERPRISE_TOKEN", emulatorToken)
	return e
}

func (e *emulator) host() string { return e.Listener.Addr().String() }

// known lets in who has the user's token, and keeps what was sent.
func (e *emulator) known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "token "+emulatorToken {
			reply(w, http.StatusUnauthorized, map[string]any{"message": "Bad credentials"})
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			reply(w, http.StatusBadRequest, map[string]any{"message": err.Error()})
			return
		}
		e.mu.Lock()
		e.bodies = append(e.bodies, string(body))
		e.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		next.ServeHTTP(w, r)
	})
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone has no answer
}

var aliasForm = regexp.MustCompile(`(\w+): __type`)

func (e *emulator) graphql(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Query     string         `json:"query"`
		Variables map[string]any `json:"variables"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		reply(w, http.StatusBadRequest, map[string]any{"message": "Problems parsing JSON"})
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, want := range map[string]string{"owner": "o", "repo": "r", "name": "r"} {
		if got, ok := q.Variables[name]; ok && got != want {
			e.foreign = append(e.foreign, fmt.Sprintf("%s %v", name, got))
		}
	}
	data, err := e.answer(q.Query, q.Variables)
	if err != nil {
		reply(w, http.StatusOK, map[string]any{"data": nil, "errors": []any{map[string]any{"message": err.Error()}}})
		return
	}
	reply(w, http.StatusOK, map[string]any{"data": data})
}

func (e *emulator) answer(query string, vars map[string]any) (map[string]any, error) {
	input, _ := vars["input"].(map[string]any)
	is := func(name string) bool { return strings.Contains(query, name) }
	switch {
	case is("__type"):
		types := map[string]any{}
		for _, m := range aliasForm.FindAllStringSubmatch(query, -1) {
			types[m[1]] = map[string]any{"fields": []any{}}
		}
		return types, nil
	case is("query RepositoryInfo"):
		return map[string]any{"repository": map[string]any{
			"id": "R1", "name": "r", "owner": map[string]any{"login": "o"}, "viewerPermission": "WRITE", "defaultBranchRef": map[string]any{"name": "main"},
		}}, nil
	case is("query PullRequestForBranch"):
		nodes := []any{}
		for i, p := range e.pulls {
			if p["headRefName"] == vars["headRefName"] {
				nodes = append(nodes, e.pull(i+1))
			}
		}
		return map[string]any{"repository": map[string]any{"pullRequests": map[string]any{"nodes": nodes}, "defaultBranchRef": map[string]any{"name": "main"}}}, nil
	case is("query PullRequestByNumber"):
		n, _ := vars["pr_number"].(float64)
		if int(n) < 1 || int(n) > len(e.pulls) {
			return nil, fmt.Errorf("no pull request %v", n)
		}
		return map[string]any{"repository": map[string]any{"pullRequest": e.pull(int(n))}}, nil
	case is("mutation PullRequestCreate"):
		e.pulls = append(e.pulls, input)
		return map[string]any{"createPullRequest": map[string]any{"pullRequest": map[string]any{"id": "P1", "url": e.URL + "/o/r/pull/1"}}}, nil
	case is("mutation CommentCreate"):
		e.comments = append(e.comments, input)
		return map[string]any{"addComment": map[string]any{"commentEdge": map[string]any{"node": map[string]any{"url": e.URL + "/o/r/pull/1#c"}}}}, nil
	case is("mutation PullRequestMerge"):
		if want := input["expectedHeadOid"]; want != nil && want != e.head {
			return nil, errors.New("the head was modified")
		}
		e.merges = append(e.merges, input)
		return map[string]any{"mergePullRequest": map[string]any{"clientMutationId": ""}}, nil
	}
	return nil, fmt.Errorf("the emulator does not know %q", query)
}

// pull is a pull request, with all fields that gh asks for in these tests.
func (e *emulator) pull(n int) map[string]any {
	p := e.pulls[n-1]
	return map[string]any{
		"id": "P1", "number": n, "url": fmt.Sprintf("%s/o/r/pull/%d", e.URL, n), "state": "OPEN", "title": p["title"], "body": p["body"],
		"headRefName": p["headRefName"], "headRefOid": e.head, "baseRefName": p["baseRefName"], "isCrossRepository": false,
		"headRepositoryOwner": map[string]any{"id": "U1", "login": "o"}, "headRepository": map[string]any{"id": "R1", "name": "r"},
		"mergeable": "MERGEABLE", "mergeStateStatus": "CLEAN", "author": map[string]any{"login": "o"},
	}
}

func (e *emulator) compare(w http.ResponseWriter, r *http.Request) {
	commits := []any{}
	if r.PathValue("range") == "main...agentbox/one" {
		commits = append(commits, map[string]any{"commit": map[string]any{"message": "add the thing\n\nas it was missing"}})
	}
	reply(w, http.StatusOK, map[string]any{"commits": commits})
}

func (e *emulator) run(w http.ResponseWriter, r *http.Request) {
	branch := map[string]string{"5": "agentbox/one", "6": "main"}[r.PathValue("id")]
	var id int
	_, _ = fmt.Sscan(r.PathValue("id"), &id) // zero is no run
	reply(w, http.StatusOK, map[string]any{
		"id": id, "head_branch": branch, "workflow_id": 1, "status": "completed", "conclusion": "failure", "head_repository": map[string]any{"full_name": "o/r"},
		"rerun_url": e.URL + "/api/v3/repos/o/r/actions/runs/" + r.PathValue("id") + "/rerun",
	})
}

func (e *emulator) rerun(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reruns = append(e.reruns, r.PathValue("id"))
	reply(w, http.StatusCreated, map[string]any{})
}

func (e *emulator) review(w http.ResponseWriter, r *http.Request) {
	var c map[string]any
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		reply(w, http.StatusBadRequest, map[string]any{"message": "Problems parsing JSON"})
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reviews = append(e.reviews, c)
	reply(w, http.StatusCreated, c)
}
