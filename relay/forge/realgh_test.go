package forge

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/server"
)

// newRealWorld is a relay with the real gh, and a GitHub of the test's own that
// the recorded remote names.
func newRealWorld(t *testing.T, change ...func(*server.Config)) (*world, *emulator) {
	t.Helper()
	gh, err := exec.LookPath("gh")
	if err != nil {
		t.Fatal("this test speaks to the real gh; install it: apt-get install gh")
	}
	w := newWorld(t)
	t.Setenv("HOME", t.TempDir())
	e := newEmulator(t)
	if err := os.Remove(filepath.Join(w.dir, "gh")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(gh, filepath.Join(w.dir, "gh")); err != nil {
		t.Fatal(err)
	}
	repo := shop
	repo.RemoteURL = e.URL + "/o/r.git"
	w.box.Repos[0] = repo
	w.start(t, change...)
	return w, e
}

// TestPullRequestsWithTheRealGh goes the way of an agent: a pull request of the
// box's branch, comments on it, a look at it, and a run again.
func TestPullRequestsWithTheRealGh(t *testing.T) {
	w, e := newRealWorld(t)
	ok := func(method, endpoint string, args ...string) wire.Envelope {
		t.Helper()
		env := w.must(t, method, endpoint, args...)
		if env.ExitCode != 0 {
			t.Fatalf("%s %q: %+v", method, args, env)
		}
		return env
	}
	ok("gh.pr.create", "", "--fill")
	if len(e.seen().pulls) != 1 {
		t.Fatalf("pull requests %v", e.seen().pulls)
	}
	p := e.seen().pulls[0]
	if p["headRefName"] != "agentbox/one" || p["baseRefName"] != "main" || p["title"] != "add the thing" || p["body"] != "as it was missing\n\n---\n"+footer {
		t.Errorf("the pull request is %v", p)
	}
	if env := w.must(t, "gh.pr.create", "", "--title", "again"); env.ExitCode == 0 || len(e.seen().pulls) != 1 || !strings.Contains(env.Stderr, "already exists") {
		t.Errorf("a second: %+v, %v", env, e.seen().pulls)
	}
	ok("gh.pr.comment", "", "1", "--body", "@/etc/passwd")
	ok("gh.pr.comment", "", "--body=done") // of the box's branch
	if len(e.seen().comments) != 2 || e.seen().comments[1]["body"] != "done\n\n---\n"+footer {
		t.Errorf("comments %v", e.seen().comments)
	}
	if env := ok("gh.pr.view", "", "--json", "number,headRefName", "--jq", ".headRefName"); env.Stdout != "agentbox/one\n" {
		t.Errorf("it is %+v", env)
	}
	const comments = "repos/o/r/pulls/1/comments"
	ok("gh.api", comments, "-fbody={owner} of {repo}", "-F", "line=10", "-F", "path=a.go")
	if c := e.seen().reviews[0]; c["body"] != "{owner} of {repo}\n\n---\n"+footer || c["line"] != 10.0 || c["path"] != "a.go" {
		t.Errorf("review comments %v", e.seen().reviews)
	}
	if env := ok("gh.api", "/"+comments, "--jq", ".[].line", "--paginate"); env.Stdout != "10\n" {
		t.Errorf("got %+v", env)
	}
	ok("gh.run.rerun", "", "5")
	if len(e.seen().reruns) != 1 || e.seen().reruns[0] != "5" {
		t.Errorf("run again: %q", e.seen().reruns)
	}
	if len(e.seen().foreign) != 0 {
		t.Errorf("something else was asked for: %q", e.seen().foreign)
	}
}

// TestNothingOfTheHostGoesOut: no file, no token, and no other repository, with
// whatever a box says, through the real gh.
func TestNothingOfTheHostGoesOut(t *testing.T) {
	w, e := newRealWorld(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("the host's own words"), 0o600); err != nil {
		t.Fatal(err)
	}
	const comments = "repos/o/r/pulls/1/comments"
	for _, row := range [][]string{
		{"gh.api", comments, "-F", "body=@" + secret},
		{"gh.api", comments, "-f", "body=@" + secret},
		{"gh.api", comments, "--input", secret},
		{"gh.api", comments, "--jq", "env"},
		{"gh.api", comments, "--jq", "$ENV.GH_ENTERPRISE_TOKEN"},
		{"gh.api", comments, "--hostname", "github.com"},
		{"gh.api", "repos/x/y/pulls/1/comments"},
		{"gh.pr.create", "", "--title", "t", "--body", "@" + secret},
		{"gh.pr.create", "", "--title", "t", "-F", secret},
		{"gh.pr.create", "", "--title", "t", "-T", secret},
		{"gh.pr.comment", "", "1", "--body-file", secret},
		{"gh.pr.list", "", "--search", "repo:x/y"},
		{"gh.pr.list", "", "--author", "a repo:x/y"},
		{"gh.pr.view", "", "--repo", "x/y", "1"},
		{"gh.pr.view", "", e.URL + "/x/y/pull/1"},
		{"gh.pr.view", "", "--json", "number", "--template", "{{env}}", "1"},
	} {
		env := w.must(t, row[0], row[1], row[2:]...)
		if all := env.Stdout + env.Stderr; strings.Contains(all, emulatorToken) || strings.Contains(all, "own words") {
			t.Errorf("%q: the box reads %q", row, all)
		}
	}
	for _, body := range e.seen().bodies {
		if strings.Contains(body, "own words") {
			t.Errorf("it was sent: %s", body)
		}
	}
	if len(e.seen().foreign) != 0 {
		t.Errorf("something else was asked for: %q", e.seen().foreign)
	}
}

// TestAPushAfterTheQuestionIsNotMerged: the yes was to another commit.
func TestAPushAfterTheQuestionIsNotMerged(t *testing.T) {
	w, e := newRealWorld(t)
	e.mu.Lock()
	e.pulls = append(e.pulls, map[string]any{"headRefName": "agentbox/one", "baseRefName": "main", "title": "t", "body": ""})
	e.mu.Unlock()
	_, end := w.asked(t, "gh.pr.merge", params("", "1", "--squash"))
	e.mu.Lock()
	e.head = strings.Repeat("2", 40)
	e.mu.Unlock()
	if env := end(true); env.ExitCode == 0 || len(e.seen().merges) != 0 {
		t.Errorf("got %+v, %v", env, e.seen().merges)
	}
	_, end = w.asked(t, "gh.pr.merge", params("", "1", "--squash"))
	if env := end(true); env.ExitCode != 0 || len(e.seen().merges) != 1 {
		t.Errorf("got %+v, %v", env, e.seen().merges)
	}
}
