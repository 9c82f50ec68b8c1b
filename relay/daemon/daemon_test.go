package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/client"
	"github.com/madarco/agentbox/relay/daemon"
)

// TestMain is also the relay that the tests start: this binary, called with
// "serve <version>".
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		os.Exit(serve(os.Args[2]))
	}
	os.Exit(m.Run())
}

func serve(version string) int {
	home, err := core.DefaultHome()
	if err == nil && version == "broken" {
		err = errors.New("no luck today")
	}
	if err == nil {
		environ, _ := json.Marshal(os.Environ())
		err = errors.Join(home.Create(), os.WriteFile(filepath.Join(string(home), "environ"), environ, 0o600))
	}
	if err == nil {
		err = daemon.Serve(context.Background(), daemon.Config{Home: home, Version: version, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// newStart is a home of its own, without a relay at the end of the test.
func newStart(t *testing.T, version string) daemon.Start {
	t.Helper()
	dir, err := os.MkdirTemp("", "abx")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := daemon.Start{Home: core.Home(filepath.Join(dir, "h")), Version: version, Command: []string{self, "serve", version}}
	t.Cleanup(func() {
		if err := daemon.Stop(context.WithoutCancel(t.Context()), s.Home); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	return s
}

func ensure(t *testing.T, s daemon.Start) wire.Health {
	t.Helper()
	h, err := daemon.Ensure(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestManyStartersStartOne(t *testing.T) {
	s := newStart(t, "v1")
	var wg sync.WaitGroup
	pids := make([]int, 6)
	for i := range pids {
		wg.Go(func() {
			h, err := daemon.Ensure(t.Context(), s)
			if err != nil {
				t.Error(err)
			}
			pids[i] = h.PID
		})
	}
	wg.Wait()
	if slices.Sort(pids); pids[0] == 0 || pids[0] != pids[len(pids)-1] {
		t.Errorf("the starters found relays %v", pids)
	}
	if again := ensure(t, s); again.PID != pids[0] || !again.OK || again.Version != "v1" || again.Approvals != "on" {
		t.Errorf("later it is %+v", again)
	}
}

func TestAnotherVersionIsReplaced(t *testing.T) {
	s := newStart(t, "v1")
	old := ensure(t, s)
	s.Version, s.Command = "v2", []string{s.Command[0], "serve", "v2"}
	if h := ensure(t, s); h.PID == old.PID || h.Version != "v2" {
		t.Errorf("got %+v after %+v", h, old)
	}
}

func TestStopEndsItAndIsNoErrorTwice(t *testing.T) {
	s := newStart(t, "v1")
	ensure(t, s)
	for range 2 {
		if err := daemon.Stop(t.Context(), s.Home); err != nil {
			t.Fatal(err)
		}
		if _, err := daemon.Status(t.Context(), s.Home); !errors.Is(err, client.ErrNotRunning) {
			t.Errorf("the status is %v", err)
		}
	}
	if _, err := os.Stat(s.Home.RelayPID()); !os.IsNotExist(err) {
		t.Errorf("its pid file: %v", err)
	}
	if _, err := daemon.Restart(t.Context(), s); err != nil {
		t.Error(err)
	}
}

func TestStalePIDFileAndSocketAreIgnored(t *testing.T) {
	s := newStart(t, "v1")
	if err := os.MkdirAll(filepath.Dir(s.Home.OperatorSocket()), 0o700); err != nil {
		t.Fatal(err)
	}
	// The pid is this test's: a Stop that believed it would end us.
	for _, path := range []string{s.Home.RelayPID(), s.Home.OperatorSocket()} {
		if err := os.WriteFile(path, fmt.Appendf(nil, "%d\nlong ago\n", os.Getpid()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := daemon.Stop(t.Context(), s.Home); err != nil {
		t.Fatal(err)
	}
	ensure(t, s)
}

func TestAKilledRelayIsStartedAgainWithItsBoxes(t *testing.T) {
	s := newStart(t, "v1")
	h := ensure(t, s)
	c := client.New(s.Home)
	defer c.Close()
	box := core.Box{ID: "b00000001", Name: "one"}
	if err := c.Register(t.Context(), wire.RegisterBox{Box: box, Token: strings.Repeat("t", 64)}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(h.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(h.PID, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	next := ensure(t, s)
	if next.PID == h.PID || next.Boxes != 1 {
		t.Errorf("got %+v after %+v", next, h)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://box/events", strings.NewReader(`{"type":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.Repeat("t", 64))
	resp, err := dial(s.Home.RelaySocket(box.ID)).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Errorf("the box's channel answers %d", resp.StatusCode)
	}
}

func TestTheStartThatFailsSaysWhy(t *testing.T) {
	s := newStart(t, "broken")
	if _, err := daemon.Ensure(t.Context(), s); err == nil || !strings.Contains(err.Error(), "no luck today") {
		t.Errorf("got %v", err)
	}
}

func TestASecondRelayStepsBack(t *testing.T) {
	s := newStart(t, "v1")
	ensure(t, s)
	if err := daemon.Serve(t.Context(), daemon.Config{Home: s.Home, Log: slog.New(slog.DiscardHandler)}); !errors.Is(err, daemon.ErrRunning) {
		t.Errorf("got %v", err)
	}
}

func TestAnAutoStartedRelayTakesNoSwitchFromTheEnvironment(t *testing.T) {
	t.Setenv("AGENTBOX_PROMPT", "off")
	t.Setenv("GIT_ASKPASS", "/project/ask")
	t.Setenv("PATH", "/project/bin:"+os.Getenv("PATH"))
	t.Setenv("SSH_AUTH_SOCK", "/run/agent")
	for _, typed := range []bool{false, true} {
		s := newStart(t, "v1")
		s.Typed = typed
		ensure(t, s)
		raw, err := os.ReadFile(filepath.Join(string(s.Home), "environ"))
		if err != nil {
			t.Fatal(err)
		}
		var environ []string
		if err := json.Unmarshal(raw, &environ); err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(environ, "AGENTBOX_PROMPT=off"); got != typed {
			t.Errorf("typed %v: the switch is there: %v", typed, got)
		}
		if got := strings.Contains(string(raw), "/project/"); got != typed {
			t.Errorf("typed %v: the project's programs are there: %v", typed, got)
		}
		if !slices.Contains(environ, "SSH_AUTH_SOCK=/run/agent") || !slices.Contains(environ, "AGENTBOX_HOME="+string(s.Home)) {
			t.Errorf("typed %v: environment is %q", typed, environ)
		}
	}
}

func TestOnlyTheUserReachesTheOperatorSocket(t *testing.T) {
	s := newStart(t, "v1")
	ensure(t, s)
	for path, want := range map[string]os.FileMode{
		s.Home.OperatorSocket(): 0o600, filepath.Dir(s.Home.OperatorSocket()): 0o700, string(s.Home): 0o700, s.Home.RelayDB(): 0o600,
		s.Home.RelayLog(): 0o600, s.Home.RelayPID(): 0o600,
	} {
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, st.Mode().Perm(), err, want)
		}
	}
}

func TestTheClientTellsRefusalsApart(t *testing.T) {
	s := newStart(t, "v1")
	c := client.New(s.Home)
	defer c.Close()
	if _, err := c.Health(t.Context()); !errors.Is(err, client.ErrNotRunning) {
		t.Errorf("without a relay: %v", err)
	}
	ensure(t, s)
	if _, err := c.Answer(t.Context(), wire.Answer{ID: "a000000000000", Answer: "y"}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an unknown approval: %v", err)
	}
	if _, err := c.Push(t.Context(), wire.HostPush{BoxID: "b00000001"}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an unknown box: %v", err)
	}
	token := strings.Repeat("t", 64)
	if err := c.Register(t.Context(), wire.RegisterBox{Box: core.Box{ID: "b00000001", Name: "one"}, Token: token}); err != nil {
		t.Fatal(err)
	}
	if err := c.Register(t.Context(), wire.RegisterBox{Box: core.Box{ID: "b00000002", Name: "two"}, Token: token}); !errors.Is(err, client.ErrConflict) {
		t.Errorf("the same token again: %v", err)
	}
	boxes, err := c.Registry(t.Context())
	if err != nil || len(boxes) != 1 || boxes[0].Box.ID != "b00000001" {
		t.Errorf("the registry is %+v, %v", boxes, err)
	}
	if list, err := c.Approvals(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("approvals are %+v, %v", list, err)
	}
	entries, err := c.Audit(t.Context(), 0, 10)
	if err != nil || len(entries) == 0 || !strings.HasPrefix(entries[0].Actor, "operator uid="+strconv.Itoa(os.Getuid())+" pid="+strconv.Itoa(os.Getpid())) {
		t.Errorf("the audit log is %+v, %v", entries, err)
	}
	if err := c.Forget(t.Context(), "b00000001"); err != nil {
		t.Error(err)
	}
}

func TestFollowingSeesWhatABoxPostsAndEndsWithTheRelay(t *testing.T) {
	s := newStart(t, "v1")
	ensure(t, s)
	c := client.New(s.Home)
	defer c.Close()
	token := strings.Repeat("t", 64)
	if err := c.Register(t.Context(), wire.RegisterBox{Box: core.Box{ID: "b00000001", Name: "one"}, Token: token}); err != nil {
		t.Fatal(err)
	}
	post := func() {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://box/events", strings.NewReader(`{"type":"hello"}`))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := dial(s.Home.RelaySocket("b00000001")).Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
	}
	post()
	seen := 0
	err := c.Follow(t.Context(), "b00000001", "", func(e wire.Event) error {
		if seen++; e.Type != "hello" || e.Seq != int64(seen) {
			t.Errorf("event %d is %+v", seen, e)
		}
		if seen == 1 {
			post()
			return nil
		}
		return c.Shutdown(t.Context())
	})
	if seen != 2 || err == nil || t.Context().Err() != nil {
		t.Errorf("saw %d events, and then %v", seen, err)
	}
	if list, err := c.Events(t.Context(), "", ""); err == nil {
		t.Errorf("after the shutdown: %+v", list)
	}
}

// dial is an HTTP client of a Unix socket.
func dial(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
}
