package sandboxdocker_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/setup"
	"github.com/madarco/agentbox/images"
	sandboxdocker "github.com/madarco/agentbox/sandbox-docker"
	"github.com/madarco/agentbox/sandbox-docker/engine"
)

// token stands for a box's relay token wherever a test hands one over.
const token = "5ec2e7d0c0ffee5ec2e7d0c0ffee5ec2e7d0c0ffee5ec2e7d0c0ffee12345678"

// endpoint is the engine that tests use. Without one they skip, except in CI,
// where an engine is part of what is tested.
func endpoint(t testing.TB) engine.Endpoint {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	at, err := sandboxdocker.Endpoint(os.Getenv, home)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Ping(t.Context()); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return engine.Endpoint{Host: e.Host(), TLS: at.TLS}
}

// compile builds a Go program for boxes of this machine's architecture, with
// the flags of scripts/build, so that agentbox-ctl is the same bytes and the
// box image the same image.
func compile(pkg string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "program-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "program")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w ", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return os.ReadFile(out)
}

var (
	ctl   = sync.OnceValues(func() ([]byte, error) { return compile("github.com/madarco/agentbox/ctl/cmd/agentbox-ctl") })
	probe = sync.OnceValues(func() ([]byte, error) { return compile("./testdata/probe") })
)

// options are those of a provider in tests: nothing is pulled ready-made, and boxes
// have the image that is made in little time.
func options(t testing.TB, at engine.Endpoint) sandboxdocker.Options {
	t.Helper()
	e, err := engine.Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return sandboxdocker.Options{
		Engine:   e,
		Ctl:      func(string) ([]byte, error) { return ctl() },
		Image:    string(images.Lean),
		Progress: func(line string) { t.Log(line) },
		Version:  "(devel)",
	}
}

func newProvider(t testing.TB, at engine.Endpoint) *sandboxdocker.Provider {
	t.Helper()
	p, err := sandboxdocker.New(options(t, at))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fill writes the smallest setup stream: a token and no repository.
func fill(box core.Box) provider.Setup {
	return func(_ context.Context, w io.Writer) error {
		return setup.WriteHeader(w, setup.Header{
			BoxID:   box.ID,
			BoxName: box.Name,
			RelayEnv: map[string]string{
				"AGENTBOX_RELAY_URL":      "http://127.0.0.1:8788",
				"AGENTBOX_HOST_RELAY_URL": "unix:///run/agentbox/relay/relay.sock",
				"AGENTBOX_RELAY_TOKEN":    token,
				"AGENTBOX_BOX_ID":         box.ID,
				"AGENTBOX_BOX_NAME":       string(box.Name),
			},
			Go: true,
		})
	}
}

// draft is a request for a box with a name of its own and the folders that a
// real one gets.
func draft(t testing.TB) provider.CreateRequest {
	t.Helper()
	id := core.NewBoxID()
	box := core.Box{ID: id, Name: core.BoxName("test-" + id), ProjectRoot: t.TempDir()}
	relay, seed := filepath.Join(t.TempDir(), "relay"), filepath.Join(t.TempDir(), "objects")
	for _, dir := range []string{relay, seed} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(seed, "object"), []byte("content"), 0o444); err != nil {
		t.Fatal(err)
	}
	return provider.CreateRequest{
		Box:      box,
		RelayDir: relay,
		Seeds:    map[string]string{"00112233445566ff": seed},
		Setup:    fill(box),
	}
}

// create makes a box that the test's end destroys.
func create(t testing.TB, p *sandboxdocker.Provider, req provider.CreateRequest) core.Box {
	t.Helper()
	t.Cleanup(func() {
		if err := p.Destroy(context.WithoutCancel(t.Context()), req.Box); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	box, err := p.Create(t.Context(), req)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	return box
}

// run executes a command in the box and returns what it printed.
func run(t testing.TB, p *sandboxdocker.Provider, box core.Box, argv ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code, err := p.Exec(t.Context(), box, provider.ExecRequest{Argv: argv, Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatalf("Exec %q: %v", argv, err)
	}
	return code, out.String(), errs.String()
}

// output is run for commands that must succeed.
func output(t testing.TB, p *sandboxdocker.Provider, box core.Box, argv ...string) string {
	t.Helper()
	code, stdout, stderr := run(t, p, box, argv...)
	if code != 0 {
		t.Fatalf("%q ended with %d: %s%s", argv, code, stdout, stderr)
	}
	return strings.TrimSpace(stdout)
}

// upload puts a program into the box.
func upload(t testing.TB, p *sandboxdocker.Provider, box core.Box, path string, program []byte) {
	t.Helper()
	code, err := p.Exec(t.Context(), box, provider.ExecRequest{
		Argv:  []string{"sh", "-c", "cat >" + path + " && chmod 755 " + path},
		Stdin: bytes.NewReader(program),
	})
	if err != nil || code != 0 {
		t.Fatalf("upload %s: code %d, %v", path, code, err)
	}
}
