package hostile

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/e2e/laptop"
)

// TestAHostileBoxTouchesNothing is one story: a box that does all of it, and a
// user who works on.
func TestAHostileBoxTouchesNothing(t *testing.T) {
	marks := t.TempDir()
	l := laptop.New(t)
	base, private := furnish(l, marks)
	l.Create()
	other := l.Box + "-2"
	l.CreateBox(other)
	otherToken, otherTip := neighbour(t, l, other)
	private["another box's commit"] = otherTip
	l.Landed(core.BranchPrefix+other, otherTip)
	before, refs := manifest(t, l.Home, ".agentbox"), remoteRefs(l)

	rows := plantAll(t, l, marks)
	for _, p := range plants {
		t.Logf("planted  %-50s %s", p.name, rows[p.name])
	}
	attack(t, l, "claimed", claims(l, base, private, otherToken, core.BranchPrefix+other))
	attack(t, l, "called", calls(l))
	attack(t, l, "asked", parked(base, l.Git("rev-parse", l.Branch), core.BranchPrefix+other))
	attack(t, l, "packed", packed(l, base))
	worksOn(t, l, other)
	if got := remoteRefs(l); !slices.Equal(got, refs) {
		t.Errorf("the remote has %q, had %q", got, refs)
	}
	if ran := named(t, marks); len(ran) > 0 {
		t.Errorf("planted programs ran on the host: %q", ran)
	}
	if left := unexpected(l, before, manifest(t, l.Home, ".agentbox")); len(left) > 0 {
		t.Errorf("the user's home changed: %q", left)
	}
}

// furnish gives the user what an attacker would like to have, and returns the
// base commit and the objects that no box may see.
func furnish(l *laptop.Laptop, marks string) (base string, private secrets) {
	for name, text := range map[string]string{
		".bashrc": "# the user's own\n", ".gitconfig": "[user]\n\tname = Dev\n\temail = dev@example.test\n", ".git-credentials": "https://dev:canary@example.test\n",
		".ssh/id_ed25519": "canary\n", ".ssh/authorized_keys": "", ".config/gh/hosts.yml": "canary\n", ".vimrc": "\n", ".local/bin/tool": "#!/bin/sh\n",
	} {
		l.Write(filepath.Join(l.Home, name), text)
	}
	other := filepath.Join(l.Home, "src/other")
	l.Must(exec.Command("git", "init", "-q", "-b", "main", other))
	l.Write(filepath.Join(other, "plan.txt"), "the other project's\n")
	l.Must(exec.Command("git", "-C", other, "add", "."))
	l.Must(exec.Command("git", "-C", other, "commit", "-qm", "of another project"))
	base = l.Git("rev-parse", "HEAD")
	l.Git("checkout", "-q", "-b", "private")
	l.Write(filepath.Join(l.Project, "private.txt"), "private\n")
	l.Git("add", ".")
	l.Git("commit", "-qm", "private")
	private = secrets{"a private commit": l.Git("rev-parse", "HEAD"), "a private blob": l.Git("rev-parse", "HEAD:private.txt")}
	l.Git("checkout", "-q", "main")
	l.Write(filepath.Join(l.Project, "README.md"), "# shop, in the stash\n")
	l.Git("stash", "-q")
	private["the stash"] = l.Git("rev-parse", "refs/stash")
	private["another project's commit"] = l.Must(exec.Command("git", "-C", other, "rev-parse", "HEAD"))
	// What a box does must not start the user's hooks either.
	for _, hook := range []string{"reference-transaction", "pre-push", "post-receive", "update", "post-update", "pre-auto-gc", "fsmonitor-watchman"} {
		path := filepath.Join(l.Project, ".git/hooks", hook)
		l.Write(path, fmt.Sprintf("#!/bin/sh\ntouch '%s/hook-of-the-user-%s'\n", marks, hook))
		if err := os.Chmod(path, 0o755); err != nil { //nolint:gosec // a program
			l.T.Fatal(err)
		}
	}
	return base, private
}

// neighbour lets the other box commit, and returns its token and commit.
func neighbour(t *testing.T, l *laptop.Laptop, box string) (token, tip string) {
	t.Helper()
	out := l.OK("shell", box, "--", "sh", "-c", "cd /workspace && git commit -q --allow-empty -m neighbour && git rev-parse HEAD && sed -n 's/^AGENTBOX_RELAY_TOKEN=//p' /run/agentbox/relay.env").Out
	tip, token, _ = strings.Cut(strings.TrimSpace(out), "\n")
	if len(tip) != 40 || token == "" {
		t.Fatalf("the other box printed %q", out)
	}
	return token, tip
}

// attack sends requests from the box and holds the answers against the table.
func attack(t *testing.T, l *laptop.Laptop, what string, requests []request) {
	t.Helper()
	for i, answer := range sent(t, l, requests) {
		r := requests[i]
		t.Logf("%-8s %-50s %s", what, r.name, core.Untrusted(answer).QuoteMax(230))
		for _, want := range r.want {
			if !strings.Contains(answer, want) {
				t.Errorf("%s %s: answered %.300q; want %q in it", what, r.name, answer, want)
			}
		}
	}
}

// remoteRefs are the remote's refs, but for the box's own branch.
func remoteRefs(l *laptop.Laptop) []string {
	out := l.Must(exec.Command("git", "-C", l.Remote.Path(laptop.RemoteRepo), "for-each-ref", "--format=%(refname) %(objectname)"))
	return slices.DeleteFunc(strings.Split(out, "\n"), func(ref string) bool { return strings.HasPrefix(ref, "refs/heads/"+l.Branch+" ") })
}

// worksOn runs what a user types next, and looks at what their terminal gets.
func worksOn(t *testing.T, l *laptop.Laptop, other string) {
	t.Helper()
	for _, args := range [][]string{
		{"list"},
		{"list", "--json"},
		{"status", l.Box},
		{"status", l.Box, "--json"},
		{"land", l.Box},
		{"relay", "status"},
		{"relay", "tail", l.Box},
		{"relay", "tail", l.Box, "--json"},
		{"logs", l.Box},
		{"agent", "approvals"},
		{"agent", "approvals", "--json"},
		{"git", "push", l.Box},
		{"git", "status", l.Box},
		{"git", "fetch", l.Box},
		{"git", "pull", l.Box},
		{"git", "push", l.Box, "--host-only"},
	} {
		r := l.Run(args...)
		t.Logf("typed    agentbox %-41s exit %d, %d bytes", strings.Join(args, " "), r.Code, len(r.Out)+len(r.Err))
		plain(t, strings.Join(args, " "), r.Out+r.Err)
	}
	questions(t, l)
	repair(l)
	for _, args := range [][]string{{"land", l.Box}, {"git", "push", l.Box}, {"git", "fetch", l.Box}, {"git", "pull", l.Box}, {"stop", l.Box}, {"list"}, {"start", l.Box}, {"status", l.Box}, {"stop", l.Box}, {"destroy", "--force", l.Box}, {"destroy", "--yes", other}, {"list"}} {
		r := l.Run(args...)
		t.Logf("typed    agentbox %-41s exit %d, %s", strings.Join(args, " "), r.Code, core.Untrusted(r.Err).QuoteMax(120))
		plain(t, strings.Join(args, " "), r.Out+r.Err)
		if r.Code != 0 {
			t.Errorf("agentbox %q: exit %d\n%s%s", args, r.Code, r.Out, r.Err)
		}
	}
}

// questions answers all that waits with no, on a terminal.
func questions(t *testing.T, l *laptop.Laptop) {
	t.Helper()
	var open []struct{ ID string }
	if err := json.Unmarshal([]byte(l.OK("agent", "approvals", "--json=id").Out), &open); err != nil {
		t.Fatal(err)
	}
	if len(open) == 0 {
		t.Error("nothing is asked, though commits are held")
	}
	for _, a := range open {
		screen := l.Answer(a.ID, "--deny", "--note", "no")
		t.Logf("denied   %s, the screen got %s", a.ID, core.Untrusted(screen).QuoteMax(600))
		plain(t, "agent approve", strings.ReplaceAll(screen, "\r\n", "\n"))
	}
}

// plain fails for text that does something to a terminal, or reads as what it
// is not.
func plain(t *testing.T, command, text string) {
	t.Helper()
	for i, r := range text {
		bad := r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) || r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd")
		if bad {
			t.Errorf("%s prints %q at %q", command, r, text[max(0, i-60):min(len(text), i+60)])
			return
		}
	}
}
