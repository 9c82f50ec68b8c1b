package mainjob

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/e2e/laptop"
)

// TestMainJob is one story, told in order: each step builds on the box and the
// commits of the one before.
func TestMainJob(t *testing.T) {
	w := laptop.New(t)
	w.Write(filepath.Join(w.Project, "src/app.txt"), "one\ntwo, not committed\n")
	w.Write(filepath.Join(w.Project, "notes/idea.txt"), "untracked\n")
	w.Create()

	t.Run("the box has the project, its dirty state and no credential", func(t *testing.T) { dirtyState(t, w) })
	t.Run("commits land in the user's repository", func(t *testing.T) { landing(t, w) })
	t.Run("the box pushes its own branch unasked", func(t *testing.T) { ownPush(t, w) })
	t.Run("a push to main waits, is denied, then approved and runs once", func(t *testing.T) { parkedPush(t, w) })
	t.Run("fetch and pull go through the host", func(t *testing.T) { fetchAndPull(t, w) })
	t.Run("a rewrite of the own branch goes through with a lease", func(t *testing.T) { forceWithLease(t, w) })
	t.Run("what is never done is refused with a reason", func(t *testing.T) { refused(t, w) })
	t.Run("another git client works against the same endpoint", func(t *testing.T) { otherClient(t, w) })
	t.Run("stop and start bring box, branch and work back", func(t *testing.T) { stopAndStart(t, w) })
	t.Run("destroy keeps what has landed and leaves nothing else", func(t *testing.T) { destroy(t, w) })
}

func dirtyState(t *testing.T, w *laptop.Laptop) {
	for _, c := range []struct{ script, want string }{
		{"git symbolic-ref --short HEAD", w.Branch},
		{"git config remote.origin.url", w.URL},
		{"git rev-parse HEAD", w.Git("rev-parse", "HEAD")},
		{"git status --porcelain=v2 -uall", w.Git("status", "--porcelain=v2", "-uall")},
		{"cat src/app.txt", "one\ntwo, not committed"},
		{"id -u", "1000"},
	} {
		if got := w.InBoxOK(c.script); got != c.want {
			t.Errorf("%s = %q; want %q", c.script, got, c.want)
		}
	}
	// The password must be in no file, environment or command line of the box.
	found := w.InBox("sudo grep -rlF " + laptop.RemotePassword + " / --exclude-dir=proc --exclude-dir=sys --exclude-dir=dev 2>/dev/null; " +
		"sudo grep -lF " + laptop.RemotePassword + " /proc/[0-9]*/environ 2>/dev/null")
	if strings.TrimSpace(found.Out) != "" {
		t.Errorf("the user's password is in the box: %s", found.Out)
	}
}

func landing(t *testing.T, w *laptop.Laptop) {
	const rounds = 20
	var delays []time.Duration
	for i := range rounds {
		out := w.InBoxOK(fmt.Sprintf("echo %d >> log.txt && git add log.txt && git commit -qm 'log %d' && date +%%s%%N && git rev-parse HEAD", i, i))
		stamp, oid, ok := strings.Cut(out, "\n")
		nanos, err := strconv.ParseInt(stamp, 10, 64)
		if !ok || err != nil {
			t.Fatalf("the box printed %q: %v", out, err)
		}
		w.Landed(w.Branch, oid)
		delays = append(delays, landedAt(t, w, w.Branch).Sub(time.Unix(0, nanos)))
	}
	slices.Sort(delays)
	t.Logf("commit to landed, %d rounds: median %v, longest %v", rounds, delays[rounds/2].Round(time.Millisecond), delays[rounds-1].Round(time.Millisecond))
	if got := w.Git("log", "--format=%s", "-1", w.Branch); got != "log 19" {
		t.Errorf("the user's branch ends in %q", got)
	}
	if got := w.Git("symbolic-ref", "--short", "HEAD"); got != "main" {
		t.Errorf("the user is on %q; landing must not move them", got)
	}
}

// landedAt is when the user's ref was last written; the box shares the clock.
func landedAt(t *testing.T, w *laptop.Laptop, branch string) time.Time {
	info, err := os.Stat(filepath.Join(w.Project, ".git/refs/heads", branch))
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

func ownPush(t *testing.T, w *laptop.Laptop) {
	w.InBoxOK("git push -u origin HEAD")
	oid := w.InBoxOK("git rev-parse HEAD")
	if got := w.RemoteHas(w.Branch); got != oid {
		t.Errorf("the remote has %q; want %q", got, oid)
	}
	if got := w.Git("rev-parse", "origin/"+w.Branch); got != oid {
		t.Errorf("the user's remote-tracking branch is %q; want %q", got, oid)
	}
	w.InBoxOK("mkdir -p /tmp/elsewhere && cd /tmp/elsewhere && echo more >> /workspace/log.txt && git -C /workspace commit -qam more && git -C /workspace push")
	if got, want := w.RemoteHas(w.Branch), w.InBoxOK("git rev-parse HEAD"); got != want {
		t.Errorf("after git -C … push the remote has %q; want %q", got, want)
	}
}

type approval struct {
	ID      string
	Message string
	Push    struct {
		Updates []struct {
			Ref, Old, New string
			Facts         struct{ Commits, Files int }
		}
	}
}

// waiting is the one approval that waits.
func waiting(t *testing.T, w *laptop.Laptop) approval {
	t.Helper()
	var list []approval
	out := w.OK("agent", "approvals", w.Box, "--json", "--wait", "30s").Out
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 {
		t.Fatalf("agent approvals printed %s (%v); want one approval", out, err)
	}
	return list[0]
}

func parkedPush(t *testing.T, w *laptop.Laptop) {
	old, tip := w.RemoteHas("main"), w.InBoxOK("git rev-parse HEAD")
	push := func() <-chan laptop.Result {
		done := make(chan laptop.Result, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), laptop.Limit)
			defer cancel()
			done <- w.RunContext(ctx, nil, "shell", w.Box, "--", "git", "-C", "/workspace", "push", "origin", "HEAD:main")
		}()
		return done
	}

	done := push()
	a := waiting(t, w)
	u := a.Push.Updates[0]
	if u.Ref != "refs/heads/main" || u.Old != old || u.New != tip {
		t.Errorf("the approval shows %+v; want refs/heads/main %s..%s", u, old, tip)
	}
	commits, files := w.Git("rev-list", "--count", old+".."+tip), len(strings.Fields(w.Git("diff", "--name-only", old, tip)))
	if strconv.Itoa(u.Facts.Commits) != commits || u.Facts.Files != files {
		t.Errorf("the approval counts %+v; want %s commits and %d files", u.Facts, commits, files)
	}
	if got := w.RemoteHas("main"); got != old {
		t.Errorf("main moved to %s before anyone said yes", got)
	}
	w.Answer(a.ID, "--deny", "--note", "use a pull request")
	r := <-done
	if r.Code == 0 || !strings.Contains(r.Err+r.Out, "use a pull request") || !strings.Contains(r.Err+r.Out, a.ID) {
		t.Errorf("the denied push ended with %d and said:\n%s%s", r.Code, r.Out, r.Err)
	}
	if got := w.RemoteHas("main"); got != old {
		t.Errorf("main moved to %s although the user said no", got)
	}

	done = push()
	again := waiting(t, w)
	if again.ID == a.ID {
		t.Error("the second question has the id of the first")
	}
	w.Answer(again.ID)
	if r := <-done; r.Code != 0 {
		t.Fatalf("the approved push failed: %s%s", r.Out, r.Err)
	}
	pushed, err := w.Remote.Pushed(laptop.RemoteRepo)
	if err != nil {
		t.Fatal(err)
	}
	times := 0
	for _, p := range pushed {
		if p.Ref == "refs/heads/main" && p.New == tip {
			times++
		}
	}
	if times != 1 || w.RemoteHas("main") != tip {
		t.Errorf("main was pushed %d times and is at %s; want once at %s", times, w.RemoteHas("main"), tip)
	}
}

func fetchAndPull(t *testing.T, w *laptop.Laptop) {
	other := filepath.Join(t.TempDir(), "colleague")
	w.Must(exec.Command("git", "clone", "-q", w.Authed(), other))
	w.Write(filepath.Join(other, "colleague.txt"), "hello\n")
	w.Must(exec.Command("git", "-C", other, "add", "."))
	w.Must(exec.Command("git", "-C", other, "-c", "user.name=C", "-c", "user.email=c@example.test", "commit", "-qm", "from a colleague"))
	w.Must(exec.Command("git", "-C", other, "push", "-q", "origin", "HEAD:main"))
	tip := w.RemoteHas("main")
	w.InBoxOK("git fetch")
	if got := w.InBoxOK("git rev-parse origin/main"); got != tip {
		t.Errorf("after fetch origin/main is %s; want %s", got, tip)
	}
	w.InBoxOK("git stash -q -u && git pull -q --rebase origin main && git stash pop -q")
	if got := w.InBoxOK("cat colleague.txt"); got != "hello" {
		t.Errorf("pull brought %q", got)
	}
	if got := w.InBoxOK("git rev-parse refs/remotes/host/main"); got != w.Git("rev-parse", "main") {
		t.Errorf("host/main is %s; want the user's main", got)
	}
	for _, line := range strings.Split(w.InBoxOK("git for-each-ref --format='%(refname)'"), "\n") {
		if strings.Contains(line, "stash") && line != "refs/stash" {
			t.Errorf("the box sees %s", line)
		}
	}
}

func forceWithLease(t *testing.T, w *laptop.Laptop) {
	w.InBoxOK("git push -q --force-with-lease")
	w.InBoxOK("git commit -q --amend -m 'log, reworded' && git push -q --force-with-lease")
	tip := w.InBoxOK("git rev-parse HEAD")
	if got := w.RemoteHas(w.Branch); got != tip {
		t.Errorf("the remote has %s; want %s", got, tip)
	}
	w.Landed(w.Branch, tip)
}

func refused(t *testing.T, w *laptop.Laptop) {
	before := w.Must(exec.Command("git", "-C", w.Remote.Path(laptop.RemoteRepo), "for-each-ref"))
	for _, c := range []struct{ push, reason string }{
		{"--delete origin main", "delete"},
		{"--delete origin " + w.Branch, "delete"},
		{"--mirror origin", "a box may"},
		{"origin HEAD:refs/notes/x", "branches and tags only"},
	} {
		r := w.InBox("git push " + c.push)
		if r.Code == 0 || !strings.Contains(r.Out+r.Err, c.reason) {
			t.Errorf("git push %s: exit %d, said:\n%s%s", c.push, r.Code, r.Out, r.Err)
		}
	}
	if after := w.Must(exec.Command("git", "-C", w.Remote.Path(laptop.RemoteRepo), "for-each-ref")); after != before {
		t.Errorf("the remote changed:\n%s\nwas:\n%s", after, before)
	}
	for _, path := range []string{"/admin/registry", "/admin/prompts/answer", "/healthz"} {
		code := w.InBoxOK("curl -s -o /dev/null -w '%{http_code}' --unix-socket /run/agentbox/relay/relay.sock http://relay" + path)
		if want := map[bool]string{true: "403", false: "200"}[strings.HasPrefix(path, "/admin")]; code != want {
			t.Errorf("a box that asks for %s gets %s; want %s", path, code, want)
		}
	}
}

func otherClient(t *testing.T, w *laptop.Laptop) {
	client := filepath.Join(t.TempDir(), "gogitclient")
	build := exec.Command("go", "build", "-o", client, "../cmd/gogitclient")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	w.Must(build)
	file, err := os.Open(client)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ctx, cancel := context.WithTimeout(t.Context(), laptop.Limit)
	defer cancel()
	if r := w.RunContext(ctx, file, "shell", w.Box, "--", "sh", "-c", "cat > /tmp/gogitclient && chmod +x /tmp/gogitclient"); r.Code != 0 {
		t.Fatalf("bring the client into the box: %s", r.Err)
	}
	oid := w.InBoxOK("/tmp/gogitclient $(git remote get-url origin) " + w.Branch)
	if got := w.RemoteHas(w.Branch); got != oid {
		t.Errorf("the remote has %s; want %s", got, oid)
	}
	w.InBoxOK("git stash -q -u && git pull -q --ff-only origin " + w.Branch + " && git stash pop -q")
}

func stopAndStart(t *testing.T, w *laptop.Laptop) {
	status := w.InBoxOK("git status --porcelain=v2 -uall")
	w.InBoxOK("git commit -q --allow-empty -m 'before the stop'")
	tip := w.InBoxOK("git rev-parse HEAD")
	w.OK("stop", w.Box)
	w.Landed(w.Branch, tip)
	w.OK("start", w.Box)
	if got := w.InBoxOK("git rev-parse HEAD"); got != tip {
		t.Errorf("after start HEAD is %s; want %s", got, tip)
	}
	if got := w.InBoxOK("git status --porcelain=v2 -uall"); got != status {
		t.Errorf("after start the status is %q; want %q", got, status)
	}
	w.InBoxOK("git commit -q --allow-empty -m 'after the start' && git push -q")
	w.Landed(w.Branch, w.InBoxOK("git rev-parse HEAD"))
}

func destroy(t *testing.T, w *laptop.Laptop) {
	tip := w.InBoxOK("git rev-parse HEAD")
	var boxes []struct{ ID, Container, Network string }
	if err := json.Unmarshal([]byte(w.OK("list", "--json").Out), &boxes); err != nil || len(boxes) != 1 {
		t.Fatalf("list: %v, %v", boxes, err)
	}
	w.OK("destroy", "--force", w.Box)
	if got := w.Git("rev-parse", w.Branch); got != tip {
		t.Errorf("after destroy the branch is %s; want %s", got, tip)
	}
	if err := exec.Command("docker", "inspect", boxes[0].Container).Run(); err == nil {
		t.Error("the container is still there")
	}
	if err := exec.Command("docker", "network", "inspect", boxes[0].Network).Run(); err == nil {
		t.Error("the network is still there")
	}
	if _, err := os.Stat(filepath.Join(w.State(), "boxes", boxes[0].ID)); !os.IsNotExist(err) {
		t.Errorf("the box's folder is still there: %v", err)
	}
}
