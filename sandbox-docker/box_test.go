package sandboxdocker_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

func TestLifeOfABox(t *testing.T) {
	t.Parallel()
	p := newProvider(t, endpoint(t))
	req := draft(t)
	box := create(t, p, req)
	wantState := func(want core.State) {
		t.Helper()
		if got, err := p.State(t.Context(), box); got != want || err != nil {
			t.Fatalf("State = %s, %v; want %s", got, err, want)
		}
		states, err := p.States(t.Context())
		if got, listed := states[box.ID]; err != nil || listed != (want != core.StateMissing) || listed && got != want {
			t.Fatalf("States has %s (%t), %v; want %s", got, listed, err, want)
		}
	}

	wantState(core.StateRunning)
	if box.Provider != "docker" || box.Docker == nil || box.Docker.Profile != "default" || box.Limits.PIDs != 2048 || box.Limits.MemoryBytes < 2<<30 {
		t.Errorf("record of the box = %+v, %+v", box, box.Docker)
	}
	if got := output(t, p, box, "sh", "-c", "id -un; pwd; hostname; cat /run/agentbox/seed/*/objects/object"); got != "vscode\n/\n"+string(box.Name)+"\ncontent" {
		t.Errorf("in the box: %q", got)
	}
	if got := output(t, p, box, "sudo", "-n", "id", "-u"); got != "0" {
		t.Errorf("sudo id -u = %q", got)
	}
	if got := output(t, p, box, "stat", "-c", "%a %U %n", "/run/agentbox", "/run/agentbox/relay.env", "/workspace"); got != "700 vscode /run/agentbox\n600 vscode /run/agentbox/relay.env\n755 vscode /workspace" {
		t.Errorf("modes in the box: %q", got)
	}
	if err := p.Start(t.Context(), box, req.Setup); err != nil {
		t.Errorf("Start of a running box: %v", err)
	}

	for range 2 {
		if err := p.Pause(t.Context(), box); err != nil {
			t.Fatalf("Pause: %v", err)
		}
		wantState(core.StatePaused)
	}
	if _, err := p.Exec(t.Context(), box, provider.ExecRequest{Argv: []string{"true"}}); !errors.Is(err, provider.ErrNotRunning) {
		t.Errorf("Exec in a paused box: %v, want ErrNotRunning", err)
	}
	for range 2 {
		if err := p.Unpause(t.Context(), box); err != nil {
			t.Fatalf("Unpause: %v", err)
		}
		wantState(core.StateRunning)
	}

	output(t, p, box, "sh", "-c", "echo kept >/workspace/file")
	for range 2 {
		if err := p.Stop(t.Context(), box); err != nil {
			t.Fatalf("Stop: %v", err)
		}
		wantState(core.StateStopped)
	}
	for name, err := range map[string]error{
		"Pause":   p.Pause(t.Context(), box),
		"Unpause": p.Unpause(t.Context(), box),
	} {
		if !errors.Is(err, provider.ErrNotRunning) {
			t.Errorf("%s of a stopped box: %v, want ErrNotRunning", name, err)
		}
	}
	if err := p.Start(t.Context(), box, garbage); err == nil {
		t.Error("Start with a broken setup stream succeeded")
	}
	wantState(core.StateStopped)
	if err := p.Start(t.Context(), box, req.Setup); err != nil {
		t.Fatalf("Start: %v", err)
	}
	if got := output(t, p, box, "sh", "-c", "cat /workspace/file; grep -c TOKEN /run/agentbox/relay.env"); got != "kept\n1" {
		t.Errorf("after stop and start: %q", got)
	}

	for range 2 {
		if err := p.Destroy(t.Context(), box); err != nil {
			t.Fatalf("Destroy: %v", err)
		}
		wantState(core.StateMissing)
	}
	if err := p.Stop(t.Context(), box); !errors.Is(err, provider.ErrNotFound) {
		t.Errorf("Stop of a destroyed box: %v, want ErrNotFound", err)
	}
}

// garbage is a setup stream that no box understands.
func garbage(_ context.Context, w io.Writer) error {
	_, err := w.Write(bytes.Repeat([]byte("garbage!"), 512))
	return err
}

func TestExecMovesStreamsAndCodes(t *testing.T) {
	t.Parallel()
	p := newProvider(t, endpoint(t))
	box := create(t, p, draft(t))

	var out, errs bytes.Buffer
	code, err := p.Exec(t.Context(), box, provider.ExecRequest{
		Argv:    []string{"sh", "-c", `cat; echo "$WORD in $PWD as $(id -un)" >&2; exit 42`},
		User:    "root",
		WorkDir: "/etc",
		Env:     []string{"WORD=word"},
		Stdin:   strings.NewReader("typed"),
		Stdout:  &out,
		Stderr:  &errs,
	})
	if code != 42 || err != nil || out.String() != "typed" || errs.String() != "word in /etc as root\n" {
		t.Errorf("Exec = %d, %v, stdout %q, stderr %q", code, err, &out, &errs)
	}
	if code, _, _ := run(t, p, box, "no-such-program"); code != 126 && code != 127 {
		t.Errorf("a missing program ended with %d, want 126 or 127", code)
	}

	big := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
	out.Reset()
	if code, err := p.Exec(t.Context(), box, provider.ExecRequest{Argv: []string{"cat"}, Stdin: bytes.NewReader(big), Stdout: &out}); code != 0 || err != nil || !bytes.Equal(out.Bytes(), big) {
		t.Errorf("1 MiB through cat: code %d, %v, %d bytes back", code, err, out.Len())
	}
}

func TestExecWithTerminalFollowsItsSize(t *testing.T) {
	t.Parallel()
	p := newProvider(t, endpoint(t))
	box := create(t, p, draft(t))
	keys, typed := io.Pipe()
	screen := &watch{seen: make(chan string, 16)}
	sizes := make(chan provider.TTYSize)
	ended := make(chan error, 1)
	go func() {
		code, err := p.Exec(t.Context(), box, provider.ExecRequest{
			Argv: []string{"bash", "--norc", "-c", `
				until [ "$(stty size)" = "31 101" ]; do sleep 0.02; done
				echo ready
				until [ "$(stty size)" = "22 77" ]; do sleep 0.02; done
				echo resized
				read -r line
				echo "got $line" | od -c
				exit 7`},
			Stdin:  keys,
			Stdout: screen,
			TTY:    &provider.TTYSize{Cols: 101, Rows: 31},
			Resize: sizes,
		})
		if code != 7 && err == nil {
			err = errors.New("the exit code is not 7")
		}
		ended <- err
	}()
	screen.until(t, "ready")
	sizes <- provider.TTYSize{Cols: 77, Rows: 22}
	screen.until(t, "resized")
	// Ctrl-P, Ctrl-Q would end a session with the engine's default keys.
	if _, err := io.WriteString(typed, "a\x10\x11b\n"); err != nil {
		t.Fatal(err)
	}
	screen.until(t, "020")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// watch is a screen on which a test waits for text.
type watch struct {
	seen chan string
	text string
}

func (w *watch) Write(p []byte) (int, error) {
	w.seen <- string(p)
	return len(p), nil
}

func (w *watch) until(t *testing.T, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !strings.Contains(w.text, want) {
		select {
		case more := <-w.seen:
			w.text += more
		case <-ctx.Done():
			t.Fatalf("no %q in %q", want, w.text)
		}
	}
}

func TestCancelledExecReturns(t *testing.T) {
	t.Parallel()
	p := newProvider(t, endpoint(t))
	box := create(t, p, draft(t))
	ctx, cancel := context.WithCancel(t.Context())
	screen := &watch{seen: make(chan string, 16)}
	ended := make(chan error, 1)
	go func() {
		_, err := p.Exec(ctx, box, provider.ExecRequest{Argv: []string{"sh", "-c", "echo up; exec sleep 1000"}, Stdout: screen})
		ended <- err
	}()
	screen.until(t, "up")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled Exec: %v", err)
	}
}

func TestExecReportsABrokenInput(t *testing.T) {
	t.Parallel()
	p := newProvider(t, endpoint(t))
	box := create(t, p, draft(t))
	broken := errors.New("the disk is on fire")
	from, to := io.Pipe()
	to.CloseWithError(broken)
	if _, err := p.Exec(t.Context(), box, provider.ExecRequest{Argv: []string{"sleep", "1000"}, Stdin: from}); !errors.Is(err, broken) {
		t.Errorf("Exec with a broken input: %v", err)
	}
}

func TestTheLogOfABox(t *testing.T) {
	t.Parallel()
	p := newProvider(t, endpoint(t))
	box := create(t, p, draft(t))
	output(t, p, box, "sh", "-c", "for n in 1 2 3; do echo line $n >/proc/1/fd/1; done; echo odd >/proc/1/fd/2")
	logged := func(req provider.LogRequest) (string, string) {
		t.Helper()
		var out, errOut bytes.Buffer
		req.Stdout, req.Stderr = &out, &errOut
		if err := p.Logs(t.Context(), box, req); err != nil {
			t.Fatal(err)
		}
		return out.String(), errOut.String()
	}
	if out, errOut := logged(provider.LogRequest{Tail: -1}); !strings.HasSuffix(out, "line 1\nline 2\nline 3\n") || !strings.HasSuffix(errOut, "odd\n") {
		t.Errorf("all: %q, %q", out, errOut)
	}
	if out, errOut := logged(provider.LogRequest{Tail: 2}); out != "line 3\n" || errOut != "odd\n" {
		t.Errorf("the last two: %q, %q", out, errOut)
	}
	if out, _ := logged(provider.LogRequest{Tail: -1, Since: time.Now().Add(time.Hour)}); out != "" {
		t.Errorf("since later: %q", out)
	}

	// Following ends with the box, and with the context.
	from, to := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := p.Logs(t.Context(), box, provider.LogRequest{Tail: 0, Follow: true, Stdout: to})
		to.CloseWithError(err)
		ended <- err
	}()
	// It says it again and again, since nobody tells when the engine follows.
	output(t, p, box, "sh", "-c", "while sleep 0.1; do echo late; done >/proc/1/fd/1 2>/dev/null </dev/null & ")
	line := make([]byte, 5)
	if _, err := io.ReadFull(from, line); err != nil || string(line) != "late\n" {
		t.Errorf("followed %q, %v", line, err)
	}
	go io.Copy(io.Discard, from) //nolint:errcheck // the test ends
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() { second <- p.Logs(ctx, box, provider.LogRequest{Tail: 0, Follow: true}) }()
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("after the context: %v", err)
	}
	if err := p.Stop(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("after the stop: %v", err)
	}
	if out, _ := logged(provider.LogRequest{Tail: -1}); !strings.HasSuffix(out, "late\n") {
		t.Errorf("of a stopped box: %q", out)
	}
	if err := p.Destroy(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	if err := p.Logs(t.Context(), box, provider.LogRequest{}); !errors.Is(err, provider.ErrNotFound) {
		t.Errorf("of a box that is gone: %v", err)
	}
}
