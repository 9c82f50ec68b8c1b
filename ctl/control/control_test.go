package control

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func serve(t *testing.T, handle Handler) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl") // t.TempDir can exceed a socket path's room
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s", "ctl.sock")
	ln, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, ln, handle) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		os.RemoveAll(dir)
	})
	return socket
}

func pong(_ context.Context, req Request) (any, error) {
	if req.Op == Ping {
		return "pong", nil
	}
	return nil, ErrUnknownOp
}

func TestAnswersAreOneLineEach(t *testing.T) {
	socket := serve(t, pong)
	for request, want := range map[string]string{
		`{"op":"ping"}` + "\n":               `{"ok":true,"data":"pong"}`,
		`{"op":"ping","timeoutMs":5}` + "\n": `{"ok":true,"data":"pong"}`,
		`{"op":"dance"}` + "\n":              `{"ok":false,"error":"unknown op"}`,
		"hello\n":                            `{"ok":false,"error":"invalid JSON"}`,
		"\n":                                 `{"ok":false,"error":"invalid JSON"}`,
	} {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, request)
		got, err := io.ReadAll(conn)
		if err != nil || string(got) != want+"\n" {
			t.Errorf("%q answered %q, %v; want %q", request, got, err, want)
		}
	}
}

func TestAnEndlessRequestIsCutOff(t *testing.T) {
	socket := serve(t, pong)
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(conn, endless{})
	got, _ := io.ReadAll(conn)
	if !strings.Contains(string(got), "invalid JSON") {
		t.Errorf("answer %q, want a refusal", got)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestACallerThatGoesAwayCancelsItsRequest(t *testing.T) {
	started, cancelled := make(chan struct{}), make(chan struct{})
	socket := serve(t, func(ctx context.Context, _ Request) (any, error) {
		close(started)
		<-ctx.Done()
		close(cancelled)
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Call(ctx, socket, Request{Op: Land}, nil) }()
	<-started
	cancel()
	<-cancelled
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Call = %v, want the context's error", err)
	}
}

func TestCallTellsADeadSocketFromARefusal(t *testing.T) {
	socket := serve(t, pong)
	if err := Call(t.Context(), socket, Request{Op: "dance"}, nil); err == nil || errors.Is(err, ErrNotRunning) {
		t.Errorf("refusal = %v", err)
	}
	if err := Call(t.Context(), socket+"x", Request{Op: Ping}, nil); !errors.Is(err, ErrNotRunning) {
		t.Errorf("dead socket = %v, want ErrNotRunning", err)
	}
	var word string
	if err := Call(t.Context(), socket, Request{Op: Ping}, &word); err != nil || word != "pong" {
		t.Errorf("ping = %q, %v", word, err)
	}
}

func TestListenReplacesTheSocketOfADeadDaemon(t *testing.T) {
	dir, err := os.MkdirTemp("", "ctl")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "ctl.sock")
	first, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	first.Close()
	second, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	info, err := os.Stat(socket)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("socket mode %v, %v; want 0660", info.Mode(), err)
	}
}
