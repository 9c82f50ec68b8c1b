package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/madarco/agentbox/core/wire"
)

func TestNotifyPostsOneEvent(t *testing.T) {
	posted := make(chan wire.PostEvent, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e wire.PostEvent
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil || r.URL.Path != "/events" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		posted <- e
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Setenv("AGENTBOX_RELAY_ENV_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AGENTBOX_RELAY_URL", server.URL)
	t.Setenv("AGENTBOX_RELAY_TOKEN", "tok")
	for _, test := range []struct {
		args []string
		code int
	}{
		{[]string{"notify", "tests", "are", "green"}, wire.ExitOK},
		{[]string{"notify", "--", "--force; rm -rf /"}, wire.ExitOK},
		{[]string{"notify"}, wire.ExitBadRequest},
		{[]string{"notify", " "}, wire.ExitBadRequest},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), test.args, streams{nil, &out, &errs}); code != test.code {
			t.Errorf("%q: exit %d; want %d: %s", test.args, code, test.code, &errs)
		}
	}
	server.Close()
	close(posted)
	var got []wire.PostEvent
	for e := range posted {
		got = append(got, e)
	}
	if len(got) != 2 || got[0].Type != "notify" || string(got[0].Payload) != `{"text":"tests are green"}` || string(got[1].Payload) != `{"text":"--force; rm -rf /"}` {
		t.Errorf("posted %+v", got)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"notify", "x"}, streams{nil, &out, &errs}); code != wire.ExitTransport {
		t.Errorf("without a relay: exit %d; want %d", code, wire.ExitTransport)
	}
}
