package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
)

// relayOf serves h as the relay of a home.
func relayOf(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "abx") // socket paths are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	home := core.Home(dir)
	if err := os.MkdirAll(filepath.Dir(home.OperatorSocket()), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", home.OperatorSocket())
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(l) }()
	c := New(home)
	t.Cleanup(func() { c.Close(); _ = srv.Close() })
	return c
}

// TestWatchOpenGoesOnWhereItBroke, over a relay that ends in the middle of a
// message and one that is stopping, until the relay refuses.
func TestWatchOpenGoesOnWhereItBroke(t *testing.T) {
	turn, resumed := 0, ""
	c := relayOf(t, func(w http.ResponseWriter, r *http.Request) {
		switch turn++; turn {
		case 1:
			_, _ = io.WriteString(w, ": connected\n\nid: a1\nevent: prompt-ask\ndata: {\"id\":\"a1\"}\n\nevent: ping\ndata: {}\n\nid: a1,n1\nevent: notice-set\ndata: {\"id\":\"n1\"}\n\nid: a1,a2,n1\nevent: prompt-ask\n")
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			resumed = r.Header.Get("Last-Event-ID")
			_, _ = io.WriteString(w, "id: n1\nevent: prompt-resolved\ndata: {\"id\":\"a1\"}\n\nid: \nevent: notice-clear\ndata: {\"id\":\"n1\"}\n\n")
		default:
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, `{"error":"not you, after (%s)"}`, r.Header.Get("Last-Event-ID"))
		}
	})
	var got []string
	err := c.WatchOpen(t.Context(), "b1", func(o Open) error {
		switch {
		case o.Asked != nil:
			got = append(got, "ask "+o.Asked.ID)
		case o.Notice != nil:
			got = append(got, "notice "+o.Notice.ID)
		default:
			got = append(got, "over "+o.Resolved+o.Cleared)
		}
		return nil
	})
	if err == nil || err.Error() != `not you, after ()` {
		t.Errorf("it ended with %v", err)
	}
	if text := strings.Join(got, ", "); text != "ask a1, notice n1, over a1, over n1" || resumed != "a1,n1" {
		t.Errorf("told %s; went on after %q", text, resumed)
	}
}

// TestWatchOpenEndsWithItsReader and with the context.
func TestWatchOpenEndsWithItsReader(t *testing.T) {
	c := relayOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "event: prompt-ask\ndata: {\"id\":\"a1\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	enough := errors.New("enough")
	if err := c.WatchOpen(t.Context(), "", func(Open) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("the reader's error became %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := c.WatchOpen(ctx, "", func(Open) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after the context: %v", err)
	}
}

// TestBoxStatusNamesWhatWasSeen: a tag goes out as it came, and nothing new is no
// error.
func TestBoxStatusNamesWhatWasSeen(t *testing.T) {
	c := relayOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("box") != "b1" || r.URL.Query().Get("wait") != "20" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if w.Header().Set("ETag", `"t1"`); r.Header.Get("If-None-Match") == `"t1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, `{"schema":1}`)
	})
	status, tag, err := c.BoxStatus(t.Context(), "b1", "", 20e9)
	if err != nil || string(status) != `{"schema":1}` || tag != `"t1"` {
		t.Errorf("%s %s %v", status, tag, err)
	}
	if status, tag, err = c.BoxStatus(t.Context(), "b1", tag, 20e9); err != nil || status != nil || tag != `"t1"` {
		t.Errorf("nothing new: %s %s %v", status, tag, err)
	}
	if _, _, err := c.BoxStatus(t.Context(), "b2", "", 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown box: %v", err)
	}
}

// TestTheUsersOwnCommandsReachTheirRoutes with the bodies that those take.
func TestTheUsersOwnCommandsReachTheirRoutes(t *testing.T) {
	c := relayOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var dst any
		switch r.URL.Path {
		case "/admin/act":
			dst = &wire.Act{}
		case "/admin/notices/set":
			dst = &wire.SetNotice{}
		case "/admin/notices/clear":
			dst = &wire.ClearNotice{}
		}
		if r.Header.Get("Content-Type") != "application/json" || wire.Decode(body, dst) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "n1", "exitCode": 3})
	})
	env, err := c.Act(t.Context(), wire.Act{BoxID: "b1", Request: wire.Request{Method: "gh.pr.view"}})
	if err != nil || env.ExitCode != 3 {
		t.Errorf("act: %+v, %v", env, err)
	}
	id, err := c.SetNotice(t.Context(), wire.SetNotice{BoxID: "b1", Kind: "k", Message: "m"})
	if err != nil || id != "n1" {
		t.Errorf("set: %q, %v", id, err)
	}
	if err := c.ClearNotice(t.Context(), "b1", id); err != nil {
		t.Errorf("clear: %v", err)
	}
}
