package modelserver

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the answers in testdata anew")

// wireForms maps how a file of testdata/wire begins to the path it is sent to.
var wireForms = map[string]string{
	"messages":  "/v1/messages",
	"responses": "/v1/responses",
	"chat":      "/v1/chat/completions",
}

func wireRequests(t testing.TB) (files []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/wire/*.request.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("find requests: %v, %v", files, err)
	}
	return files
}

func wireForm(file string) string {
	form, _, _ := strings.Cut(filepath.Base(file), "-")
	return wireForms[form]
}

func TestAnswersOnTheWire(t *testing.T) {
	for _, file := range wireRequests(t) {
		name := strings.TrimSuffix(file, ".request.json")
		t.Run(filepath.Base(name), func(t *testing.T) {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			server := New(Options{})
			if err := server.Add("commit", commitScript(t)); err != nil {
				t.Fatal(err)
			}
			request := httptest.NewRequest(http.MethodPost, "/commit"+wireForm(file), strings.NewReader(string(body)))
			request.Header.Set("Authorization", "Bearer test")
			answer := httptest.NewRecorder()
			server.ServeHTTP(answer, request)
			got := answer.Header().Get("Content-Type") + "\n\n" + answer.Body.String()
			if *update {
				if err := os.WriteFile(name+".answer", []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name + ".answer")
			if err != nil {
				t.Fatal(err)
			}
			if answer.Code != http.StatusOK || got != string(want) {
				t.Errorf("status %d, answer\n%s\nwant\n%s", answer.Code, got, want)
			}
		})
	}
}

// FuzzConversation gives each API whatever a client may send: the answer is
// one in the API's form, and the same again.
func FuzzConversation(f *testing.F) {
	for _, file := range wireRequests(f) {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wireForm(file), body)
	}
	script := commitScript(f)
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		server := New(Options{})
		if err := server.Add("commit", script); err != nil {
			t.Fatal(err)
		}
		ask := func() (int, string) {
			request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
			request.URL.Path = "/commit" + path
			request.Header.Set("X-Api-Key", "test")
			answer := httptest.NewRecorder()
			server.ServeHTTP(answer, request)
			return answer.Code, answer.Body.String()
		}
		code, first := ask()
		again, second := ask()
		if code != again || first != second || first == "" {
			t.Errorf("answered %d %q, then %d %q", code, first, again, second)
		}
	})
}
