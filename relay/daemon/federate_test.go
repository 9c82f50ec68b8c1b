package daemon

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/relay/federation"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/memory"
)

func TestALaptopFederatesWithATokenOfItsOwn(t *testing.T) {
	up, local := memory.New(memory.Options{}), memory.New(memory.Options{})
	plane := federation.New(federation.Config{Store: up, Laptops: map[string]store.TokenHash{"mine": store.HashToken("secret")}})
	pushed := make(chan struct{}, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		plane.Handler().ServeHTTP(w, r)
		if r.URL.Path == "/federation/pending" { // the last of a push
			pushed <- struct{}{}
		}
	}))
	defer srv.Close()
	home := core.Home(t.TempDir())
	var log bytes.Buffer
	cfg := Config{Home: home, PlaneURL: srv.URL, Log: slog.New(slog.NewTextHandler(&log, nil))}
	if _, err := local.RegisterBox(t.Context(), core.Box{ID: "b00000001", Name: "shop"}, store.HashToken("box")); err != nil {
		t.Fatal(err)
	}
	write := func(mode os.FileMode) {
		t.Helper()
		file := home.PlaneToken()
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	federate(t.Context(), cfg, local)() // there is no token
	write(0o644)
	federate(t.Context(), cfg, local)()
	if n := strings.Count(log.String(), "the plane gets nothing"); n != 2 {
		t.Errorf("said %d times what is wrong: %s", n, &log)
	}
	write(0o600)
	end := federate(t.Context(), cfg, local)
	defer end()
	<-pushed
	if _, err := up.Box(t.Context(), "b00000001"); err != nil {
		t.Error(err)
	}
}
