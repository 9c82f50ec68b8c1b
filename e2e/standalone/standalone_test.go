package standalone

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestARequestThatHasBegunIsAnswered(t *testing.T) {
	file := filepath.Join(t.TempDir(), "url")
	listener, err := Listen(t.Context(), "127.0.0.1:0", file)
	if err != nil {
		t.Fatal(err)
	}
	url, err := os.ReadFile(file)
	if want := "http://" + listener.Addr().String() + "\n"; err != nil || string(url) != want {
		t.Errorf("the file holds %q, %v; want %q", url, err, want)
	}
	ctx, end := context.WithCancel(t.Context())
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		end()
		io.WriteString(w, "done") //nolint:errcheck // the client looks
	})
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, handler, time.Hour) }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "done" {
		t.Errorf("answer %q, %v", body, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

func TestAnAddressThatCannotBeToldIsAnError(t *testing.T) {
	if l, err := Listen(t.Context(), "127.0.0.1:0", filepath.Join(t.TempDir(), "none", "url")); err == nil {
		t.Errorf("it listens on %s, and nobody knows", l.Addr())
	}
}
