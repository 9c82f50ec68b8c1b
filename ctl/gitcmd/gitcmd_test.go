package gitcmd

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/ctl/relayenv"
)

func TestArgv(t *testing.T) {
	for _, c := range []struct {
		o        Options
		terminal bool
		want     string
	}{
		{Options{Op: Push}, false, "-c push.default=current push"},
		{Options{Op: Push}, true, "-c push.default=current push --progress"},
		{Options{Op: Push, Args: []string{"--quiet"}}, true, "-c push.default=current push --quiet"},
		{Options{Op: Push, Dir: "/w", Remote: "up", Args: []string{"-u", "HEAD"}}, false, "-C /w -c push.default=current push up -u HEAD"},
		{Options{Op: Fetch, Args: []string{"--prune"}}, true, "fetch --prune"},
		{Options{Op: Pull, Remote: "origin", Args: []string{"--ff-only"}}, false, "pull origin --ff-only"},
	} {
		if got := strings.Join(argv(c.o, c.terminal), " "); got != c.want {
			t.Errorf("argv(%+v) = %s, want %s", c.o, got, c.want)
		}
	}
}

func TestRefusalsAreReadFromAnyPieces(t *testing.T) {
	for text, want := range map[string]int{
		"To http://x\n ! [remote rejected] a -> main (denied by the user: no)\nerror: failed\n": 10,
		"remote: waiting\rremote: still\r ! [remote rejected] a -> main (expired)\n":            124,
		" ! [remote rejected] a -> main (pre-receive hook declined)\n":                          -1,
		" ! [rejected] a -> main (denied)\n":                                                    -1,
		"remote: ! [remote rejected] a -> main (denied)\n":                                      -1,
		" ! [remote rejected] a -> main\n":                                                      -1,
	} {
		whole, pieces := refusals{code: -1}, refusals{code: -1}
		whole.Write([]byte(text))
		for i := range len(text) {
			pieces.Write([]byte(text[i : i+1]))
		}
		if whole.code != want || pieces.code != want {
			t.Errorf("%q reads as %d and %d, want %d", text, whole.code, pieces.code, want)
		}
	}
	long := refusals{code: -1}
	long.Write(bytes.Repeat([]byte("x"), 1<<20))
	if cap(long.line) > 2*maxLine {
		t.Errorf("a line without end holds %d bytes", cap(long.line))
	}
}

// repositories makes a remote and a clone on branch agentbox/b, one commit ahead.
func repositories(t *testing.T) (remote, work string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Setenv("AGENTBOX_REAL_GIT_PATH", "")
	t.Setenv("AGENTBOX_RELAY_ENV_FILE", filepath.Join(dir, "none"))
	t.Setenv(relayenv.URL, "http://relay")
	remote, work = filepath.Join(dir, "remote.git"), filepath.Join(dir, "work")
	git(t, "init", "-q", "--bare", "-b", "main", remote)
	git(t, "init", "-q", "-b", "agentbox/b", work)
	git(t, "-C", work, "remote", "add", "origin", remote)
	git(t, "-C", work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one")
	return remote, work
}

func git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func run(t *testing.T, o Options) (code int, stderr string) {
	t.Helper()
	var words bytes.Buffer
	o.Stdout, o.Stderr = io.Discard, &words
	code = Run(t.Context(), o)
	return code, words.String()
}

func TestPushFetchAndPullRunTheRealGit(t *testing.T) {
	remote, work := repositories(t)
	if code, text := run(t, Options{Op: Push, Dir: work}); code != 0 {
		t.Fatalf("push = %d: %s", code, text)
	}
	if got, want := git(t, "-C", remote, "rev-parse", "agentbox/b"), git(t, "-C", work, "rev-parse", "HEAD"); got != want {
		t.Errorf("the remote has %s, want %s", got, want)
	}
	if code, text := run(t, Options{Op: Fetch, Dir: work, Remote: "origin"}); code != 0 {
		t.Errorf("fetch = %d: %s", code, text)
	}
	if code, text := run(t, Options{Op: Pull, Dir: work, Args: []string{"--ff-only", "origin", "agentbox/b"}}); code != 0 {
		t.Errorf("pull = %d: %s", code, text)
	}
	if code, _ := run(t, Options{Op: Fetch, Dir: work, Remote: "nowhere"}); code != 128 {
		t.Errorf("fetch of no remote = %d, want git's 128", code)
	}
}

func TestAPersonsNoHasACodeOfItsOwn(t *testing.T) {
	remote, work := repositories(t)
	hook := filepath.Join(remote, "hooks", "update")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, text := run(t, Options{Op: Push, Dir: work}); code != 1 {
		t.Errorf("a hook's refusal = %d, want git's 1: %s", code, text)
	}
	script := filepath.Join(t.TempDir(), "git")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho ' ! [remote rejected] x -> main (denied: no)' >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AGENTBOX_REAL_GIT_PATH", script)
	if code, text := run(t, Options{Op: Push, Dir: work}); code != 10 || !strings.Contains(text, "denied: no") {
		t.Errorf("a denial = %d: %s", code, text)
	}
}

func TestWithoutARelayOrGitItSaysSo(t *testing.T) {
	t.Setenv("AGENTBOX_RELAY_ENV_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv(relayenv.URL, "")
	if code, text := run(t, Options{Op: Push}); code != 65 || !strings.Contains(text, "AGENTBOX_RELAY_URL") {
		t.Errorf("no relay = %d: %s", code, text)
	}
}

func TestAWrapperOnThePathIsNotCalled(t *testing.T) {
	_, work := repositories(t)
	dir := t.TempDir()
	mark := filepath.Join(dir, "called")
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if code, text := run(t, Options{Op: Fetch, Dir: work}); code != 0 {
		t.Errorf("fetch = %d: %s", code, text)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the wrapper ran")
	}
}

func TestACancelledRunInterruptsGit(t *testing.T) {
	_, work := repositories(t)
	script := filepath.Join(t.TempDir(), "git")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntrap 'exit 77' INT\necho up >&2\nread line\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AGENTBOX_REAL_GIT_PATH", script)
	stdin, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	defer hold.Close()
	ctx, cancel := context.WithCancel(t.Context())
	code := Run(ctx, Options{Op: Fetch, Dir: work, Stdin: stdin, Stdout: io.Discard, Stderr: onWrite(cancel)})
	if code != 77 {
		t.Errorf("Run = %d, want the code of the interrupted git", code)
	}
}

type onWrite func()

func (f onWrite) Write(p []byte) (int, error) { f(); return len(p), nil }
