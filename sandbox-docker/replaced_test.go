package sandboxdocker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/sandbox-docker/engine"
)

// fakeEngine answers what a create asks up to the container's start. Of the
// calls in gone, the named number is answered with 404.
type fakeEngine struct {
	labels map[string]string
	gone   map[string]int

	mu    sync.Mutex
	calls map[string]int
}

func (f *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := r.Method + " " + r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	w.Header().Set("Api-Version", "1.41")
	w.Header().Set("Content-Type", "application/json")
	f.mu.Lock()
	f.calls[call]++
	nth := f.calls[call]
	f.mu.Unlock()
	if f.gone[call] == nth {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"message":"No such image: sha256:1"}`)
		return
	}
	switch call {
	case "GET info":
		io.WriteString(w, `{"MemTotal":8589934592,"Architecture":"x86_64","SecurityOptions":["name=seccomp,profile=default"]}`)
	case "GET json": // an image, or the list of containers
		if strings.Contains(r.URL.Path, "/images/") {
			json.NewEncoder(w).Encode(map[string]any{"Id": "sha256:1", "Config": map[string]any{"Labels": f.labels}})
			return
		}
		io.WriteString(w, "[]")
	case "GET networks":
		io.WriteString(w, "[]")
	case "POST create":
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"Id":"1"}`)
	case "POST start":
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, `{"message":"enough"}`)
	}
}

// createWith makes a box of the image that the fake engine has and returns how
// often each call was made.
func createWith(t *testing.T, gone map[string]int) (map[string]int, error) {
	t.Helper()
	f := &fakeEngine{gone: gone, calls: map[string]int{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	e, err := engine.Connect(engine.Endpoint{Host: "tcp://" + server.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	p, err := New(Options{Engine: e, Image: "lean", Ctl: func(string) ([]byte, error) { return []byte("ctl"), nil }})
	if err != nil {
		t.Fatal(err)
	}
	w, err := p.want("amd64", "lean")
	if err != nil {
		t.Fatal(err)
	}
	f.labels = w.labels
	box := core.Box{ID: core.NewBoxID(), Name: "one"}
	_, err = p.Create(t.Context(), provider.CreateRequest{
		Box: box, RelayDir: "/r", Setup: func(context.Context, io.Writer) error { return nil },
	})
	server.Close() // which waits for the calls under way
	return f.calls, err
}

func TestAnImageThatWasReplacedIsLookedUpAgain(t *testing.T) {
	calls, err := createWith(t, map[string]int{"POST create": 2}) // the first is the network's
	if calls["POST create"] != 3 || calls["POST start"] != 1 || err == nil || errors.Is(err, errReplaced) {
		t.Errorf("calls %v, %v", calls, err)
	}
	calls, err = createWith(t, map[string]int{"POST start": 1})
	if calls["POST create"] != 2 || err == nil || errors.Is(err, errReplaced) {
		t.Errorf("of a container that does not start: calls %v, %v", calls, err)
	}
}
