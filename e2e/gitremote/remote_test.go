package gitremote_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/madarco/agentbox/e2e/gitremote"
)

// remoteWith serves one repository and returns its address with user information.
func remoteWith(t *testing.T) (*gitremote.Remote, string) {
	t.Helper()
	remote := gitremote.New(gitremote.Options{Root: t.TempDir(), User: "dev", Password: "secret"})
	if err := remote.Create(t.Context(), "project.git"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(remote)
	t.Cleanup(func() {
		server.Close()
		remote.Close()
	})
	return remote, strings.Replace(server.URL, "://", "://dev:secret@", 1) + "/project.git"
}

func gitCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true")
	return cmd
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := gitCommand(t.Context(), dir, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// repository has one commit on main and the remote as origin.
func repository(t *testing.T, url string) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "remote", "add", "origin", url)
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
	return dir
}

// add commits a file of n bytes that no compression makes smaller.
func add(t *testing.T, dir string, n int) {
	t.Helper()
	data := make([]byte, n)
	rand.Read(data)
	if err := os.WriteFile(filepath.Join(dir, "data"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "add", "data")
	git(t, dir, "commit", "-q", "-m", "data")
}

func TestPushCloneAndFetchInEveryProtocol(t *testing.T) {
	for _, version := range []string{"0", "1", "2"} {
		t.Run("protocol "+version, func(t *testing.T) {
			remote, url := remoteWith(t)
			protocol := "protocol.version=" + version
			dir := repository(t, url)
			git(t, dir, "-c", protocol, "push", "-q", "origin", "main")
			clone := filepath.Join(t.TempDir(), "clone")
			git(t, dir, "-c", protocol, "clone", "-q", url, clone)
			add(t, dir, 100)
			git(t, dir, "-c", protocol, "push", "-q", "origin", "main")
			git(t, clone, "-c", protocol, "fetch", "-q")
			tip := git(t, dir, "rev-parse", "HEAD")
			if got := git(t, clone, "rev-parse", "origin/main"); got != tip {
				t.Errorf("fetched %s, want %s", got, tip)
			}
			pushed, err := remote.Pushed("project.git")
			if err != nil || len(pushed) != 2 || pushed[1] != (gitremote.Update{Old: pushed[0].New, New: tip, Ref: "refs/heads/main"}) {
				t.Errorf("the log of pushes is %v, %v", pushed, err)
			}
		})
	}
}

func TestALargePushComesInChunks(t *testing.T) {
	remote, url := remoteWith(t)
	dir := repository(t, url)
	add(t, dir, 3<<20)
	git(t, dir, "-c", "http.postBuffer=65536", "push", "-q", "origin", "main")
	if pushed, err := remote.Pushed("project.git"); err != nil || len(pushed) != 1 {
		t.Errorf("the log of pushes is %v, %v", pushed, err)
	}
	if !anyRequest(remote, func(r gitremote.Request) bool { return r.Chunked && strings.HasSuffix(r.Path, "/git-receive-pack") }) {
		t.Errorf("no push came in chunks: %+v", remote.Requests())
	}
}

func TestACompressedBodyIsUnderstood(t *testing.T) {
	remote, url := remoteWith(t)
	dir := repository(t, url)
	git(t, dir, "push", "-q", "origin", "main")
	clone := filepath.Join(t.TempDir(), "clone")
	git(t, dir, "clone", "-q", url, clone)
	// Forty commits newer than what both sides have: more "have" lines than git
	// sends without compressing them.
	t.Setenv("GIT_COMMITTER_DATE", "2090-01-01T00:00:00Z")
	for range 40 {
		git(t, clone, "commit", "-q", "--allow-empty", "-m", "mine")
	}
	add(t, dir, 10)
	git(t, dir, "push", "-q", "origin", "main")
	git(t, clone, "fetch", "-q")
	if !anyRequest(remote, func(r gitremote.Request) bool { return r.Encoding == "gzip" && r.Status == 200 }) {
		t.Errorf("no fetch was compressed: %+v", remote.Requests())
	}
}

func anyRequest(remote *gitremote.Remote, is func(gitremote.Request) bool) bool {
	for _, r := range remote.Requests() {
		if is(r) {
			return true
		}
	}
	return false
}

func TestWithoutThePasswordNothingIsServed(t *testing.T) {
	remote, url := remoteWith(t)
	for _, address := range []string{
		strings.Replace(url, "dev:secret@", "", 1),
		strings.Replace(url, "secret", "guess", 1),
		strings.Replace(url, "dev:", "other:", 1),
	} {
		if out, err := gitCommand(t.Context(), t.TempDir(), "ls-remote", address).CombinedOutput(); err == nil {
			t.Errorf("ls-remote %s was answered: %s", address, out)
		}
	}
	for _, r := range remote.Requests() {
		if r.Status != 401 {
			t.Errorf("%+v, want status 401", r)
		}
	}
}

func TestARepositoryThatIsNotThere(t *testing.T) {
	_, url := remoteWith(t)
	for _, name := range []string{"other.git", "..%2fproject.git", "project.git%2f..%2fother.git", "hooks"} {
		address := strings.Replace(url, "project.git", name, 1)
		if out, err := gitCommand(t.Context(), t.TempDir(), "ls-remote", address).CombinedOutput(); err == nil {
			t.Errorf("ls-remote %s was answered: %s", address, out)
		}
	}
}

func TestTheClientReadsWhyAHookRefuses(t *testing.T) {
	remote, url := remoteWith(t)
	if err := remote.Hook("project.git", "pre-receive", "echo 'not on a Friday' >&2; exit 1"); err != nil {
		t.Fatal(err)
	}
	dir := repository(t, url)
	out, err := gitCommand(t.Context(), dir, "push", "origin", "main").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("remote: not on a Friday")) {
		t.Errorf("push: %v\n%s", err, out)
	}
	if pushed, err := remote.Pushed("project.git"); err != nil || len(pushed) != 0 {
		t.Errorf("the log of pushes is %v, %v; want none", pushed, err)
	}
}

func TestAPushOutlivesItsClient(t *testing.T) {
	remote := gitremote.New(gitremote.Options{Root: t.TempDir(), User: "dev", Password: "secret"})
	if err := remote.Create(t.Context(), "project.git"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(remote)
	started, release := fifo(t, "started"), fifo(t, "release")
	if err := remote.Hook("project.git", "pre-receive", "echo > '"+started+"'; read -r line < '"+release+"'"); err != nil {
		t.Fatal(err)
	}
	dir := repository(t, strings.Replace(server.URL, "://", "://dev:secret@", 1)+"/project.git")
	ctx, kill := context.WithCancel(t.Context())
	push := gitCommand(ctx, dir, "push", "-q", "origin", "main")
	if err := push.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(started); err != nil {
		t.Fatal(err)
	}
	kill()
	if err := push.Wait(); err == nil {
		t.Error("the push was answered while the hook held it")
	}
	if err := os.WriteFile(release, []byte("go on\n"), 0); err != nil {
		t.Fatal(err)
	}
	server.Close()
	remote.Close()
	if pushed, err := remote.Pushed("project.git"); err != nil || len(pushed) != 1 {
		t.Errorf("the log of pushes is %v, %v; want one", pushed, err)
	}
}

func fifo(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
