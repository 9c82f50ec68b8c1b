package modelserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

func serve(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	server := New(o)
	if err := server.Add("commit", commitScript(t)); err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	return server, listener.URL
}

// ask sends a request with headers given as "Name: value".
func ask(t *testing.T, method, url string, body io.Reader, headers ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

const (
	openAIKey    = "Authorization: Bearer good"
	anthropicKey = "X-Api-Key: good"
	claudeAgent  = "User-Agent: claude-cli/2"
)

func TestErrorsHaveTheFormOfTheAPI(t *testing.T) {
	const ask0 = `{"messages":[{"role":"user","content":"hi"}],"input":"hi"}`
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		want               string
		kind               Kind
	}{
		"no key, messages":      {"POST", "/commit/v1/messages", ask0, nil, 401, `{"error":{"message":"the key is`, Refused},
		"wrong key, messages":   {"POST", "/commit/v1/messages", ask0, []string{"X-Api-Key: bad", claudeAgent}, 401, `"type":"authentication_error"}`, Refused},
		"wrong key, responses":  {"POST", "/commit/v1/responses", ask0, []string{"Authorization: Bearer bad"}, 401, `"code":"invalid_api_key"`, Refused},
		"unknown, Claude":       {"GET", "/commit/api/oauth/profile", "", []string{anthropicKey, claudeAgent}, 404, `{"error":{"message":"GET /api/oauth/profile is not served here","type":"not_found_error"},"type":"error"}`, Unknown},
		"unknown, OpenAI":       {"POST", "/commit/v1/embeddings", "", []string{openAIKey}, 404, `"code":"unknown_url"`, Unknown},
		"unknown script":        {"POST", "/none/v1/responses", ask0, []string{openAIKey}, 404, `there is no script \"none\"`, Unknown},
		"no script":             {"GET", "/", "", []string{openAIKey}, 404, `there is no script \"\"`, Unknown},
		"another method":        {"PUT", "/commit/v1/messages", "", []string{anthropicKey}, 404, `PUT /v1/messages`, Unknown},
		"websocket":             {"GET", "/commit/v1/responses", "", []string{openAIKey}, 426, "use POST", Refused},
		"no JSON":               {"POST", "/commit/v1/chat/completions", "{", []string{openAIKey}, 400, "decode the request", Refused},
		"compressed":            {"POST", "/commit/v1/responses", ask0, []string{openAIKey, "Content-Encoding: zstd"}, 415, `content encoding \"zstd\"`, Refused},
		"a tool that has moved": {"POST", "/commit/v1/messages", `{"tools":[{"name":"Write","input_schema":{}}]}`, []string{anthropicKey, "Anthropic-Version: 1"}, 400, `play script commit: step 1: tool Write has no argument`, Refused},
	} {
		t.Run(name, func(t *testing.T) {
			server, url := serve(t, Options{Key: "good"})
			status, text := ask(t, c.method, url+c.path, strings.NewReader(c.body), c.headers...)
			if status != c.status || !strings.Contains(text, c.want) || !json.Valid([]byte(text)) {
				t.Errorf("got %d %s, want %d and %s", status, text, c.status, c.want)
			}
			if got := server.Requests(); len(got) != 1 || got[0].Kind != c.kind || got[0].Status != c.status || got[0].Error == "" {
				t.Errorf("recorded %+v", got)
			}
		})
	}
}

func TestProbesAreAnswered(t *testing.T) {
	server, url := serve(t, Options{Key: "good"})
	for _, c := range []struct{ method, path, body, want string }{
		{"HEAD", "/commit/api/hello", "", ""},
		{"GET", "/commit/v1/models", "", `"id":"scripted"`},
		{"POST", "/commit/v1/messages/count_tokens", `{"messages":[]}`, `{"input_tokens":4}`},
	} {
		status, text := ask(t, c.method, url+c.path, strings.NewReader(c.body), anthropicKey)
		if status != http.StatusOK || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: got %d %s", c.method, c.path, status, text)
		}
	}
	for _, r := range server.Requests() {
		if r.Kind != Probe || r.Step != sideStep {
			t.Errorf("recorded %+v", r)
		}
	}
}

// endless is a body that a careless server would read for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestBodiesAreBounded(t *testing.T) {
	server, _ := serve(t, Options{})
	for _, path := range []string{"/v1/messages", "/v1/responses", "/v1/chat/completions", "/v1/messages/count_tokens"} {
		request := httptest.NewRequest(http.MethodPost, "/commit"+path, endless{})
		request.Header.Set("X-Api-Key", "any")
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, request)
		if answer.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: got %d", path, answer.Code)
		}
	}
}

func TestAnAgentThatAsksWithoutEndIsStopped(t *testing.T) {
	server, _ := serve(t, Options{})
	server.requests = make([]Request, maxRequests)
	request := httptest.NewRequest(http.MethodPost, "/commit/v1/messages", strings.NewReader("{}"))
	request.Header.Set("X-Api-Key", "any")
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, request)
	if answer.Code != http.StatusTooManyRequests || len(server.Requests()) != maxRequests {
		t.Errorf("got %d, %d are recorded", answer.Code, len(server.Requests()))
	}
}

func TestATurnIsRecordedWithItsResult(t *testing.T) {
	var log bytes.Buffer
	server, url := serve(t, Options{Log: &log})
	ask(t, http.MethodPost, url+"/commit/v1/messages", strings.NewReader(`{"model":"m","messages":[
		{"role":"user","content":"please greet"},
		{"role":"assistant","content":[{"type":"tool_use","id":"call_1_0"}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1_0","content":"denied","is_error":true}]}],
		"tools":[{"name":"Edit","input_schema":{"properties":{"file_path":{},"old_string":{},"new_string":{}}}}]}`),
		anthropicKey, claudeAgent, "X-Claude-Code-Session-Id: s1")
	want := Request{
		Script: "commit", Kind: Turn, Agent: "claude", Client: "claude-cli/2", Session: "s1", Credential: "good",
		Method: "POST", Path: "/v1/messages", Status: 200, Model: "m", Prompt: "please greet", Step: 3, Tool: "Edit",
		Result: &Result{Step: 1, Output: "denied", Failed: true},
	}
	got := server.Requests()
	if len(got) != 1 || string(encode(got[0])) != string(encode(want)) {
		t.Errorf("recorded %s, want %s", encode(got), encode(want))
	}
	if log.String() != string(encode(want))+"\n" {
		t.Errorf("logged %s", log.String())
	}
}

func TestAwaitSeesWhatCameAndWhatComes(t *testing.T) {
	server, url := serve(t, Options{})
	models := func(r Request) bool { return r.Path == "/v1/models" }
	first := make(chan error)
	go func() {
		_, err := server.Await(t.Context(), models)
		first <- err
	}()
	ask(t, http.MethodGet, url+"/commit/v1/models", nil, openAIKey)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if r, err := server.Await(t.Context(), models); err != nil || r.Kind != Probe {
		t.Errorf("got %+v, %v", r, err)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the agent ended"))
	_, err := server.Await(gone, func(Request) bool { return false })
	if err == nil || !strings.Contains(err.Error(), "the agent ended") || !strings.Contains(err.Error(), "1 came") {
		t.Errorf("got %v", err)
	}
}

func TestManyAgentsAtOnce(t *testing.T) {
	server, url := serve(t, Options{})
	var agents sync.WaitGroup
	const count = 20
	for i := range count {
		agents.Go(func() {
			if err := server.Add(fmt.Sprintf("other-%d", i), Script{{Finish: "a"}}); err != nil {
				t.Error(err)
			}
			ask(t, http.MethodPost, url+"/commit/v1/responses", strings.NewReader(`{"stream":true}`), openAIKey)
		})
	}
	agents.Wait()
	if got := len(server.Requests()); got != count {
		t.Errorf("%d of %d requests are recorded", got, count)
	}
}

// hungUp is a client that is gone.
type hungUp struct{ httptest.ResponseRecorder }

func (*hungUp) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestAClientThatHangsUpEndsTheAnswer(t *testing.T) {
	server, _ := serve(t, Options{})
	request := httptest.NewRequest(http.MethodPost, "/commit/v1/responses", strings.NewReader(`{"stream":true}`))
	request.Header.Set("X-Api-Key", "any")
	server.ServeHTTP(&hungUp{*httptest.NewRecorder()}, request)
	if got := server.Requests(); len(got) != 1 || got[0].Kind != Side {
		t.Errorf("recorded %+v", got)
	}
}

func TestScriptsAreCheckedWhenTheyAreAdded(t *testing.T) {
	server := New(Options{})
	for name, script := range map[string]Script{"Upper": nil, "a/b": nil, "": nil, "bad": {{}}} {
		if err := server.Add(name, script); err == nil {
			t.Errorf("script %q was taken", name)
		}
	}
}
