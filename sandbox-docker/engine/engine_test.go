package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

var netipPrefix = netip.MustParsePrefix("10.0.0.0/28")

func frame(stream byte, text string) string {
	head := [8]byte{stream}
	binary.BigEndian.PutUint32(head[4:], uint32(len(text)))
	return string(head[:]) + text
}

func TestDemultiplex(t *testing.T) {
	whole := frame(1, "out") + frame(2, "err") + frame(1, "") + frame(1, "put")
	for name, c := range map[string]struct {
		stream      string
		stdout, err string
		ok          bool
	}{
		"whole":          {whole, "output", "err", true},
		"empty":          {"", "", "", true},
		"cut in a head":  {whole + "\x01\x00", "output", "err", false},
		"cut in a frame": {frame(1, "all") + frame(1, "part")[:10], "allpa", "", false},
		"no stream":      {frame(7, "x"), "", "", false},
		"huge frame":     {"\x01\x00\x00\x00\xff\xff\xff\xffsmall", "small", "", false},
	} {
		var stdout, stderr bytes.Buffer
		err := demultiplex(&stdout, &stderr, strings.NewReader(c.stream))
		if (err == nil) != c.ok || !c.ok && !errors.Is(err, errStream) || stdout.String() != c.stdout || stderr.String() != c.err {
			t.Errorf("%s: stdout %q, stderr %q, %v", name, &stdout, &stderr, err)
		}
	}
	full := errors.New("disk full")
	if err := demultiplex(failing{full}, io.Discard, strings.NewReader(whole)); !errors.Is(err, full) {
		t.Errorf("a writer's error is lost: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func FuzzDemultiplex(f *testing.F) {
	f.Add([]byte(frame(1, "out") + frame(2, "err")))
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xffsmall"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		var stdout, stderr bytes.Buffer
		err := demultiplex(&stdout, &stderr, bytes.NewReader(stream))
		if err != nil && !errors.Is(err, errStream) {
			t.Errorf("demultiplex(%q): %v", stream, err)
		}
		if stdout.Len()+stderr.Len() > len(stream) {
			t.Errorf("demultiplex(%q) made up output", stream)
		}
	})
}

// fake is an engine that answers every call with one status and body.
func fake(t *testing.T, status int, body string) *Engine {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		if strings.HasSuffix(r.URL.Path, "/_ping") {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	e, err := Connect(Endpoint{Host: "tcp://" + server.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestErrorsAreSorted(t *testing.T) {
	ctx := t.Context()
	for name, c := range map[string]struct {
		status  int
		message string
		call    func(*Engine) error
		want    error
	}{
		"missing image":   {404, "No such image: x", func(e *Engine) error { _, err := e.Image(ctx, "x"); return err }, ErrNotFound},
		"missing network": {404, "network x not found", func(e *Engine) error { return e.RemoveNetwork(ctx, "x") }, ErrNotFound},
		"taken subnet":    {403, "Pool overlaps with other one on this address space", func(e *Engine) error { _, err := e.CreateNetwork(ctx, "x", netipPrefix, nil); return err }, ErrSubnetTaken},
		"stopped at exec": {409, "Container x is not running", func(e *Engine) error { _, err := e.Exec(ctx, "x", provider.ExecRequest{}); return err }, provider.ErrNotRunning},
		"busy":            {409, "removal already in progress", func(e *Engine) error { return e.RemoveContainer(ctx, "x") }, ErrConflict},
		"full disk": {500, "mkdir /var/lib/docker/overlay2/x: no space left on device", func(e *Engine) error {
			return e.Import(ctx, strings.NewReader("tar"), "x")
		}, provider.ErrNoSpace},
		"failure of its own": {500, "boom", func(e *Engine) error { return e.StartContainer(ctx, "x") }, nil},
	} {
		body, err := json.Marshal(map[string]string{"message": c.message})
		if err != nil {
			t.Fatal(err)
		}
		got := c.call(fake(t, c.status, string(body)))
		if got == nil || c.want != nil && !errors.Is(got, c.want) || !strings.Contains(got.Error(), c.message) {
			t.Errorf("%s: %v, want %v with the engine's words", name, got, c.want)
		}
		if errors.Is(got, provider.ErrUnavailable) {
			t.Errorf("%s: counts as an engine that is not there", name)
		}
	}
}

func TestADiskThatFillsUpDuringABuild(t *testing.T) {
	e := fake(t, http.StatusOK, `{"stream":"npm error nospc ENOSPC: No space left on device, write\n"}
{"error":"returned a non-zero code: 228","errorDetail":{"message":"returned a non-zero code: 228"}}`)
	err := e.Build(t.Context(), BuildRequest{Context: strings.NewReader("tar"), Tag: "x"})
	if !errors.Is(err, provider.ErrNoSpace) || !strings.Contains(err.Error(), "228") {
		t.Errorf("Build: %v, want ErrNoSpace with the engine's words", err)
	}
}

func TestAnEngineThatIsNotThere(t *testing.T) {
	host := "unix://" + filepath.Join(t.TempDir(), "none.sock")
	e, err := Connect(Endpoint{Host: host})
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Ping": e.Ping(t.Context()),
		"Exec": func() error { _, err := e.Exec(t.Context(), "x", provider.ExecRequest{}); return err }(),
	} {
		var gone *provider.UnavailableError
		want := "docker engine at " + host + ": not reachable: connect: no such file or directory"
		if !errors.Is(err, provider.ErrUnavailable) || !errors.As(err, &gone) || gone.Next == "" || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s, and advice", name, err, want)
		}
	}
	cause := errors.New("the user went away")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for name, err := range map[string]error{
		"Ping": e.Ping(cancelled),
		"Exec": func() error { _, err := e.Exec(cancelled, "x", provider.ExecRequest{}); return err }(),
	} {
		if !errors.Is(err, cause) || errors.Is(err, provider.ErrUnavailable) {
			t.Errorf("cancelled %s: %v", name, err)
		}
	}
	if _, err := Connect(Endpoint{Host: "nonsense"}); err == nil {
		t.Error("Connect took an address that is none")
	}
}

func TestFailedBuildQuotesItsLastOutput(t *testing.T) {
	var body strings.Builder
	for i := range 20 {
		fmt.Fprintf(&body, "{\"stream\":\"line %d\\u001b[2J\\n\"}\n", i)
	}
	body.WriteString(`{"errorDetail":{"message":"exit code 7"},"error":"exit code 7"}`)
	var log []string
	err := fake(t, 200, body.String()).Build(t.Context(), BuildRequest{
		Context: strings.NewReader(""), Tag: "x", Log: func(line string) { log = append(log, line) },
	})
	if err == nil || !strings.Contains(err.Error(), "exit code 7") || !strings.Contains(err.Error(), "line 19") || strings.Contains(err.Error(), "line 11") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("Build: %q", err)
	}
	if len(log) != 20 {
		t.Errorf("%d lines were logged", len(log))
	}
	if err := fake(t, 200, `{"stream":"cut`).Build(t.Context(), BuildRequest{Context: strings.NewReader(""), Tag: "x"}); err == nil {
		t.Error("a build whose progress is cut short succeeded")
	}
}

func TestInfoReadsWhatIsEnforced(t *testing.T) {
	text := `{"ServerVersion":"20.10.24","Architecture":"aarch64","MemTotal":1024,"NCPU":2,"MemoryLimit":true,"PidsLimit":false,"CpuCfsQuota":true,"SecurityOptions":["name=apparmor","name=seccomp,profile=default"]}`
	got, err := fake(t, 200, text).Info(t.Context())
	want := Info{Version: "20.10.24", Arch: "arm64", MemTotal: 1024, CPUCount: 2, Memory: true, CPUs: true, Seccomp: true}
	if err != nil || got != want {
		t.Errorf("Info = %+v, %v; want %+v", got, err, want)
	}
	got, err = fake(t, 200, `{"SecurityOptions":["name=noseccomp"]}`).Info(t.Context())
	if err != nil || got.Seccomp {
		t.Errorf("Info without seccomp = %+v, %v", got, err)
	}
}

func TestStates(t *testing.T) {
	for word, want := range map[container.ContainerState]core.State{
		"created": core.StateStopped, "running": core.StateRunning, "paused": core.StatePaused, "restarting": core.StateStopped,
		"removing": core.StateStopped, "exited": core.StateStopped, "dead": core.StateStopped,
	} {
		if got := state(word); got != want {
			t.Errorf("state(%s) = %s, want %s", word, got, want)
		}
	}
}
