package setup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/madarco/agentbox/core"
	stream "github.com/madarco/agentbox/core/setup"
	"github.com/madarco/agentbox/ctl/control"
	"github.com/madarco/agentbox/ctl/landing"
	"github.com/madarco/agentbox/ctl/relayenv"
)

func repo(path string) stream.Repo {
	return stream.Repo{
		Repo:     core.Repo{Key: "0123456789abcdef", BoxPath: core.BoxPath(path), Branch: "agentbox/b", Sanctioned: "topic", BaseOID: "000000000000000000000000000000000000000a"},
		Endpoint: "http://127.0.0.1:8788/git/0123456789abcdef",
		Rewrites: []string{"https://github.com/acme/shop", "git@github.com:acme/shop.git"},
	}
}

// written is a stream with one section of text for each repository.
func written(t *testing.T, h stream.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	if err := stream.WriteHeader(&b, h); err != nil {
		t.Fatal(err)
	}
	for _, r := range h.Repos {
		err := stream.WriteSection(&b, func(w io.Writer) error { _, err := io.WriteString(w, "for "+string(r.BoxPath)); return err })
		if err != nil {
			t.Fatal(err)
		}
	}
	return &b
}

func options(t *testing.T) Options {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") // t.TempDir can exceed a socket path's room
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return Options{
		RelayEnv: filepath.Join(dir, "relay.env"), StateDir: dir,
		Word: filepath.Join(dir, "go"), Socket: filepath.Join(dir, "ctl.sock"),
		MakeRepo: func(_ context.Context, r stream.Repo, in io.Reader) error {
			got, err := io.ReadAll(stream.NewSection(in))
			if want := "for " + string(r.BoxPath); err != nil || string(got) != want {
				t.Errorf("%s got %q, %v", r.BoxPath, got, err)
			}
			return nil
		},
	}
}

func TestRunFillsTheBox(t *testing.T) {
	o := options(t)
	header := stream.Header{RelayEnv: map[string]string{relayenv.Token: "t"}, Repos: []stream.Repo{repo("/workspace"), repo("/workspace/nested")}}
	if err := Run(t.Context(), written(t, header), o); err != nil {
		t.Fatal(err)
	}
	env, err := relayenv.Read(o.RelayEnv)
	if err != nil || env[relayenv.Token] != "t" {
		t.Errorf("relay.env = %q, %v", env, err)
	}
	repos, err := landing.ReadList(o.StateDir)
	if err != nil || len(repos) != 2 || repos[1].Path != "/workspace/nested" || len(repos[0].Branches) != 2 || repos[0].Base.IsZero() {
		t.Errorf("repos = %+v, %v", repos, err)
	}
	if _, err := os.Stat(o.Word); err == nil {
		t.Error("the word was given unasked")
	}

	// A start after a stop: a new token, and the repositories stay.
	header = stream.Header{RelayEnv: map[string]string{relayenv.Token: "t2"}}
	if err := Run(t.Context(), written(t, header), o); err != nil {
		t.Fatal(err)
	}
	if env, _ := relayenv.Read(o.RelayEnv); env[relayenv.Token] != "t2" {
		t.Errorf("relay.env = %q", env)
	}
	if repos, _ := landing.ReadList(o.StateDir); len(repos) != 2 {
		t.Errorf("repos = %+v", repos)
	}
}

func TestAProjectWithoutARepositoryIsFilledFirst(t *testing.T) {
	o := options(t)
	makeRepo, made := o.MakeRepo, false
	o.MakeRepo = func(ctx context.Context, repo stream.Repo, r io.Reader) error {
		made = true
		return makeRepo(ctx, repo, r)
	}
	var got string
	o.Fill = func(dir core.BoxPath, r io.Reader) error {
		text, err := io.ReadAll(stream.NewSection(r))
		got = string(dir) + ": " + string(text)
		if made {
			t.Error("a repository was made before the files were there")
		}
		return err
	}
	section := func(text string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	}
	var in bytes.Buffer
	header := stream.Header{RelayEnv: map[string]string{relayenv.Token: "t"}, Folder: true, Repos: []stream.Repo{repo("/workspace/nested")}}
	err := errors.Join(
		stream.WriteHeader(&in, header), stream.WriteSection(&in, section("files")), stream.WriteSection(&in, section("for /workspace/nested")),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), &in, o); err != nil || got != "/workspace: files" || !made || in.Len() > 0 {
		t.Errorf("filled %q, made %t, %v", got, made, err)
	}
}

func TestTheWordIsGivenLastAndTheDaemonAwaited(t *testing.T) {
	o := options(t)
	inner, made := o.MakeRepo, make(chan struct{})
	o.MakeRepo = func(ctx context.Context, r stream.Repo, in io.Reader) error {
		if _, err := os.Stat(o.Word); err == nil {
			t.Error("the word came before the repository")
		}
		defer close(made)
		return inner(ctx, r, in)
	}
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), written(t, stream.Header{Repos: []stream.Repo{repo("/w")}, Go: true}), o)
	}()

	// The test is process 1 and the daemon.
	<-made
	fifo := openFIFO(t, o.Word)
	word := make([]byte, 3)
	if _, err := io.ReadFull(fifo, word); err != nil || string(word) != "go\n" {
		t.Fatalf("the word is %q, %v", word, err)
	}
	select {
	case err := <-done:
		t.Fatalf("Run = %v before the daemon answered", err)
	default:
	}
	ln, err := control.Listen(o.Socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- control.Serve(ctx, ln, func(context.Context, control.Request) (any, error) { return "pong", nil })
	}()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
	cancel()
	<-served
}

// openFIFO makes the FIFO as process 1 does and opens its reading end, which
// waits for the writer.
func openFIFO(t *testing.T, path string) *os.File {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestAFailureEndsTheSetupBeforeTheWord(t *testing.T) {
	o := options(t)
	o.MakeRepo = func(context.Context, stream.Repo, io.Reader) error { return errors.New("disk full") }
	err := Run(t.Context(), written(t, stream.Header{Repos: []stream.Repo{repo("/w")}, Go: true}), o)
	if err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("Run = %v", err)
	}
	if _, err := os.Stat(o.Word); err == nil {
		t.Error("the word was given")
	}
	if repos, _ := landing.ReadList(o.StateDir); repos != nil {
		t.Errorf("a repository that was not made is watched: %+v", repos)
	}
	if err := Run(t.Context(), strings.NewReader("hello"), o); err == nil {
		t.Error("a stream without header was taken")
	}
}

func TestAProcess1ThatDoesNotListenIsReported(t *testing.T) {
	o := options(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, written(t, stream.Header{Go: true}), o); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
}

func TestGitReadsTheConfigurationAsMeant(t *testing.T) {
	odd := repo(`/work space/"quoted" \ # ; back`)
	odd.Rewrites = []string{`https://github.com/acme/shop.git`, `/srv/odd "path" \ # ; x `, `git@github.com:acme/shop.git`}
	odd.Endpoint = "http://127.0.0.1:8788/git/fedcba9876543210"
	text, err := gitConfig([]stream.Repo{repo("/workspace"), odd})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gitconfig")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string][]string{
		"safe.directory":                            {"/workspace", string(odd.BoxPath)},
		"url." + odd.Endpoint + ".insteadOf":        odd.Rewrites,
		"credential." + odd.Endpoint + ".helper":    {""},
		"http." + odd.Endpoint + ".proxy":           {""},
		"http." + odd.Endpoint + ".version":         {"HTTP/1.1"},
		"http." + odd.Endpoint + ".postBuffer":      {"4194304"},
		"url." + repo("").Endpoint + ".insteadOf":   repo("").Rewrites,
		"credential." + repo("").Endpoint + ".none": nil,
	} {
		out, _ := exec.Command("git", "config", "-f", file, "-z", "--get-all", key).Output()
		if got := string(out); got != strings.Join(append(want, ""), "\x00") {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
}

func TestTheRealAddressStaysAndTheEndpointIsUsed(t *testing.T) {
	dir := t.TempDir()
	text, err := gitConfig([]stream.Repo{repo("/workspace")})
	if err != nil {
		t.Fatal(err)
	}
	system := filepath.Join(dir, "system")
	if err := os.WriteFile(system, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_CONFIG_SYSTEM", system)
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	work := filepath.Join(dir, "work")
	git := func(args ...string) string {
		out, err := exec.Command("git", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", work)
	git("-C", work, "remote", "add", "origin", "git@github.com:acme/shop.git")
	if got := git("-C", work, "config", "remote.origin.url"); got != "git@github.com:acme/shop.git" {
		t.Errorf("the remote's address reads %s", got)
	}
	if got := git("-C", work, "remote", "get-url", "origin"); got != repo("").Endpoint {
		t.Errorf("git goes to %s", got)
	}
}

// TestALongerNameIsAnotherRepository: git compares prefixes.
func TestALongerNameIsAnotherRepository(t *testing.T) {
	docs := repo("/workspace/docs")
	docs.Endpoint, docs.Rewrites = "http://127.0.0.1:8788/git/fedcba9876543210", []string{"https://github.com/acme/shop-docs"}
	shop := repo("/workspace")
	shop.Rewrites = append([]string{"https://github.com/acme/shop.git"}, shop.Rewrites...)
	text, err := gitConfig([]stream.Repo{shop, docs})
	if err != nil {
		t.Fatal(err)
	}
	system := filepath.Join(t.TempDir(), "system")
	if err := os.WriteFile(system, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_CONFIG_SYSTEM", system)
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	for address, want := range map[string]string{
		"https://github.com/acme/shop":          shop.Endpoint,
		"https://github.com/acme/shop/":         shop.Endpoint + "/",
		"https://github.com/acme/shop.git":      shop.Endpoint,
		"git@github.com:acme/shop.git":          shop.Endpoint,
		"https://github.com/acme/shop-docs":     docs.Endpoint,
		"https://github.com/acme/shop-docs2":    "https://github.com/acme/shop-docs2",
		"https://github.com/acme/shop-api":      "https://github.com/acme/shop-api",
		"https://github.com/acme/shopping.git":  "https://github.com/acme/shopping.git",
		"https://github.com/acme/shop.wiki.git": "https://github.com/acme/shop.wiki.git",
	} {
		out, err := exec.Command("git", "ls-remote", "--get-url", address).Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s goes to %s, %v; want %s", address, got, err, want)
		}
	}
}

func TestGitConfigRefusesWhatBreaksOutOfItsLine(t *testing.T) {
	for name, change := range map[string]func(*stream.Repo){
		"rewrite":        func(r *stream.Repo) { r.Rewrites = []string{"x\"\n[core]\n\tpager = touch /tmp/x"} },
		"path":           func(r *stream.Repo) { r.BoxPath = "/w\n[alias]" },
		"endpoint":       func(r *stream.Repo) { r.Endpoint = "http://127.0.0.1/\n[alias]" },
		"other protocol": func(r *stream.Repo) { r.Endpoint = "ext::sh -c touch" },
	} {
		r := repo("/workspace")
		change(&r)
		if _, err := gitConfig([]stream.Repo{r}); err == nil {
			t.Errorf("%s passed", name)
		}
	}
}
