package githttp_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/madarco/agentbox/core/policy"
)

// ownBranchOnly refuses all but the box's branch, with a reason.
func ownBranchOnly(u policy.RefUpdate) string {
	if u.Ref != "refs/heads/agentbox/one" {
		return "this box may push only refs/heads/agentbox/one"
	}
	return ""
}

func only(b *bare) { b.refuse = ownBranchOnly }

func TestEveryProtocolFetchesAndPushes(t *testing.T) {
	for version := range 3 {
		for _, format := range []string{"sha1", "sha256"} {
			t.Run(fmt.Sprintf("version %d, %s", version, format), func(t *testing.T) {
				g := newRig(t, format, only)
				g.env = append(g.env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.version", fmt.Sprintf("GIT_CONFIG_VALUE_0=%d", version))
				g.clone()
				if got, want := g.tip(g.client, "origin/main"), g.tip(g.repo.dir, "main"); got != want {
					t.Errorf("cloned %s; want %s", got, want)
				}
				if got, want := g.git(g.client, "symbolic-ref", "refs/remotes/origin/HEAD"), "refs/remotes/origin/main"; got != want {
					t.Errorf("HEAD is %s; want %s", got, want)
				}
				g.git(g.client, "rev-parse", "v1^{commit}")

				g.git(g.client, "push", "-q", "-u", "origin", "HEAD")
				if got, want := g.tip(g.repo.dir, "agentbox/one"), g.tip(g.client, "HEAD"); got != want {
					t.Errorf("pushed %s; want %s", got, want)
				}
				if got, want := g.git(g.client, "rev-parse", "--abbrev-ref", "@{u}"), "origin/agentbox/one"; got != want {
					t.Errorf("upstream is %s; want %s", got, want)
				}
				before := g.refs()
				out := g.fails(g.client, "push", "origin", "HEAD:main")
				if want := "! [remote rejected] HEAD -> main (this box may push only refs/heads/agentbox/one)"; !strings.Contains(out, want) {
					t.Errorf("output lacks %q:\n%s", want, out)
				}
				if after := g.refs(); after != before {
					t.Errorf("the remote changed:\n%s\n%s", before, after)
				}

				g.git(g.repo.dir, "update-ref", "refs/heads/other", "agentbox/one")
				g.git(g.client, "fetch", "-q", "origin")
				g.git(g.client, "rev-parse", "origin/other")
				g.git(g.client, "ls-remote", "--exit-code", "origin", "refs/heads/other")
			})
		}
	}
}

func TestPushForms(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		want   string // in the output
		fails  bool
		moves  bool
		prefix []string // options of git itself
	}{
		"atomic, one ref":     {args: []string{"--atomic", "origin", "agentbox/one"}, moves: true},
		"two refs":            {args: []string{"origin", "agentbox/one", "agentbox/one:main"}, fails: true, moves: true, want: "may push only"},
		"atomic, two refs":    {args: []string{"--atomic", "origin", "agentbox/one", "agentbox/one:refs/remotes/x"}, fails: true, want: "another ref of this push was refused"},
		"mirror":              {args: []string{"--mirror", "origin"}, fails: true, want: "a box may push branches and tags only"},
		"tags":                {args: []string{"origin", "agentbox/one", "other-tag"}, fails: true, want: "may push only", moves: true},
		"other case":          {args: []string{"origin", "agentbox/one:agentbox/ONE"}, fails: true, want: "may push only"},
		"delete":              {args: []string{"origin", ":main"}, fails: true, want: "a box may not delete refs"},
		"delete and push":     {args: []string{"origin", ":main", "agentbox/one"}, fails: true, want: "another ref of this push was refused"},
		"landing-like ref":    {args: []string{"origin", "agentbox/one:refs/agentbox/base/x"}, fails: true, want: "branches and tags only"},
		"push options":        {args: []string{"-o", "ci.skip", "-o", "x=y", "origin", "agentbox/one"}, moves: true},
		"force":               {args: []string{"--force", "origin", "agentbox/one"}, moves: true},
		"lease":               {args: []string{"--force-with-lease", "origin", "agentbox/one"}, moves: true},
		"stale lease":         {args: []string{"--force-with-lease=agentbox/one:main", "origin", "agentbox/one"}, fails: true, want: "stale info"},
		"dry run":             {args: []string{"--dry-run", "origin", "agentbox/one"}, want: "[new branch]"},
		"quiet":               {args: []string{"-q", "origin", "agentbox/one"}, moves: true},
		"chunked":             {prefix: []string{"-c", "http.postBuffer=1024"}, args: []string{"origin", "agentbox/one"}, moves: true},
		"old HTTP":            {prefix: []string{"-c", "http.version=HTTP/1.1"}, args: []string{"origin", "agentbox/one"}, moves: true},
		"signed":              {args: []string{"--signed=yes", "origin", "agentbox/one"}, fails: true, want: "does not support --signed"},
		"HEAD as source":      {args: []string{"origin", "HEAD"}, moves: true},
		"seventeen refs":      {args: append([]string{"origin", "agentbox/one"}, manyRefs(16)...), fails: true, want: "17 refs in one push; push at most 16 at a time"},
		"no thin pack":        {args: []string{"--no-thin", "origin", "agentbox/one"}, moves: true},
		"own branch is there": {args: []string{"origin", "main:agentbox/one"}, moves: false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, "sha1", only)
			g.clone()
			g.git(g.client, "tag", "other-tag")
			g.commit(g.client, randomText(4096)) // over a small post buffer
			before := g.refs()
			args := append(append(tc.prefix, "push"), tc.args...)
			var out string
			if tc.fails {
				out = g.fails(g.client, args...)
			} else {
				out = g.git(g.client, args...)
			}
			if !strings.Contains(out, tc.want) {
				t.Errorf("output lacks %q:\n%s", tc.want, out)
			}
			if tc.moves {
				if got, want := g.tip(g.repo.dir, "agentbox/one"), g.tip(g.client, "agentbox/one"); got != want {
					t.Errorf("the branch is at %s; want %s", got, want)
				}
				g.git(g.repo.dir, "update-ref", "-d", "refs/heads/agentbox/one")
			} else if name == "own branch is there" {
				return
			}
			if after := g.refs(); after != before {
				t.Errorf("the remote changed:\n%s\n%s", before, after)
			}
		})
	}
}

// randomText does not compress to less than n/2 bytes.
func randomText(n int) string {
	raw := make([]byte, n/2)
	rand.Read(raw)
	return hex.EncodeToString(raw)
}

func manyRefs(n int) []string {
	var refs []string
	for i := range n {
		refs = append(refs, fmt.Sprintf("agentbox/one:refs/heads/x%d", i))
	}
	return refs
}

func TestUpToDateSendsNoPush(t *testing.T) {
	g := newRig(t, "sha1")
	g.clone()
	g.git(g.client, "push", "-q", "origin", "agentbox/one")
	if out := g.git(g.client, "push", "origin", "agentbox/one"); !strings.Contains(out, "Everything up-to-date") {
		t.Errorf("output is %q", out)
	}
	if n := len(g.repo.pushes); n != 1 {
		t.Errorf("%d pushes came in; want 1", n)
	}
}

func TestForcedRewriteWithLease(t *testing.T) {
	g := newRig(t, "sha1")
	g.clone()
	g.git(g.client, "push", "-q", "-u", "origin", "HEAD")
	old := g.tip(g.client, "HEAD")
	g.git(g.client, "commit", "-q", "--amend", "-m", "again")
	g.git(g.client, "push", "-q", "--force-with-lease", "origin", "HEAD")
	u := g.repo.pushes[1].Updates[0]
	if string(u.Old) != old || string(u.New) != g.tip(g.client, "HEAD") {
		t.Errorf("update is %+v; want old %s", u, old)
	}
}

func TestShallowAndPartialClonesPush(t *testing.T) {
	for name, args := range map[string][]string{
		"shallow": {"--depth=1"}, "shallow, version 0": {"-c", "protocol.version=0", "--depth=1"}, "single branch": {"--single-branch"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, "sha1")
			g.clone(args...)
			g.git(g.client, "push", "-q", "origin", "HEAD")
			if got, want := g.tip(g.repo.dir, "agentbox/one"), g.tip(g.client, "HEAD"); got != want {
				t.Errorf("pushed %s; want %s", got, want)
			}
		})
	}
}

func TestShallowRepositoryAdvertisesItsBoundary(t *testing.T) {
	g := newRig(t, "sha1", func(b *bare) { b.shallow = append(b.shallow, "1111111111111111111111111111111111111111") })
	g.env = append(g.env, "GIT_TRACE_PACKET=1")
	if out := g.git(g.repo.dir, "-c", "protocol.version=0", "ls-remote", g.url); !strings.Contains(out, "shallow 1111111111111111111111111111111111111111") {
		t.Errorf("no shallow line:\n%s", out)
	}
}

func TestFailedRefreshIsTold(t *testing.T) {
	for version := range 3 {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			g := newRig(t, "sha1", func(b *bare) { b.refreshErr = errors.New("fetch from the remote: no route") })
			out := g.fails(g.repo.dir, "-c", fmt.Sprintf("protocol.version=%d", version), "ls-remote", g.url)
			if want := "fetch from the remote: no route"; !strings.Contains(out, want) {
				t.Errorf("output lacks %q:\n%s", want, out)
			}
		})
	}
}

func TestPusherReadsWhatItWaitsFor(t *testing.T) {
	answer := make(chan struct{})
	g := newRig(t, "sha1", func(b *bare) {
		b.hold = func(_ context.Context, say func(string)) error {
			say("waiting for approval ab12")
			<-answer
			return nil
		}
	})
	g.clone()
	push := g.cmd(g.client, "push", "origin", "HEAD")
	stderr, err := push.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := push.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	seen := false
	for lines.Scan() {
		if strings.Contains(lines.Text(), "remote: waiting for approval ab12") && !seen {
			seen = true
			close(answer)
		}
	}
	if err := push.Wait(); err != nil || !seen {
		t.Errorf("push ended with %v, line seen: %v", err, seen)
	}
}

func TestPusherThatGoesAwayEndsTheWait(t *testing.T) {
	ended := make(chan error, 1)
	g := newRig(t, "sha1", func(b *bare) {
		b.hold = func(ctx context.Context, say func(string)) error {
			say("waiting")
			<-ctx.Done()
			ended <- ctx.Err()
			return ctx.Err()
		}
	})
	g.clone()
	push := g.cmd(g.client, "push", "origin", "HEAD")
	push.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // git's helpers die with it, as on Ctrl-C
	stderr, err := push.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := push.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), "waiting") {
	}
	if err := syscall.Kill(-push.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = push.Wait()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the wait ended with %v", err)
	}
}

func TestRefusedPackGivesTheReason(t *testing.T) {
	g := newRig(t, "sha1", func(b *bare) {
		b.hold = func(context.Context, func(string)) error { return errors.New("rejected: a file of 2 GiB\nand more") }
	})
	g.clone()
	out := g.fails(g.client, "push", "origin", "HEAD")
	if want := "rejected: a file of 2 GiB and more"; !strings.Contains(out, want) {
		t.Errorf("output lacks %q:\n%s", want, out)
	}
}
