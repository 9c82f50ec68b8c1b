package gitgate

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
)

// lookupRepo is a user's repository with one commit on main.
func lookupRepo(t *testing.T) (h *Host, git func(args ...string) string, dir string) {
	t.Helper()
	top := t.TempDir()
	dir = filepath.Join(top, "project")
	git = func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=U", "-c", "user.email=u@example.test", "-C", dir}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", "-b", "main", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	git("commit", "-q", "--allow-empty", "-m", "one")
	h, err := New(core.Home(filepath.Join(top, "home")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return h, git, dir
}

func TestABranchIsTakenByTheUserOrTheRemote(t *testing.T) {
	h, git, dir := lookupRepo(t)
	git("remote", "add", "origin", "https://example.test/x.git")
	for _, ref := range []string{"refs/heads/agentbox/mine", "refs/heads/agentbox/deep/er", "refs/remotes/origin/agentbox/pushed", "refs/tags/agentbox/tag"} {
		git("update-ref", ref, "HEAD")
	}
	repo, err := h.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for branch, want := range map[core.BranchName]bool{
		"agentbox/mine": true, "agentbox/deep": true, "agentbox/pushed": true,
		"agentbox/min": false, "agentbox/tag": false, "agentbox/mine-2": false,
	} {
		if got, err := h.BranchTaken(t.Context(), repo, branch); got != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", branch, got, err, want)
		}
	}
}

func TestABranchThatLeavesNoRoomIsSaid(t *testing.T) {
	h, git, dir := lookupRepo(t)
	git("branch", "agentbox")
	repo, err := h.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.BranchTaken(t.Context(), repo, "agentbox/x"); !errors.Is(err, ErrInTheWay) {
		t.Errorf("got %v", err)
	}
}

func TestMissingAreTheCommitsThatNoRefReaches(t *testing.T) {
	h, git, dir := lookupRepo(t)
	first := core.ObjectID(git("rev-parse", "HEAD"))
	git("commit", "-q", "--allow-empty", "-m", "two")
	second := core.ObjectID(git("rev-parse", "HEAD"))
	git("commit", "-q", "--allow-empty", "-m", "lost")
	dropped := core.ObjectID(git("rev-parse", "HEAD"))
	git("reset", "-q", "--hard", "HEAD^")
	git("tag", "blob", git("hash-object", "-w", "--stdin"))
	repo, err := h.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	unknown := core.ObjectID(strings.Repeat("a", 40))
	got, err := h.Missing(t.Context(), repo.Record("agentbox/x"), []core.ObjectID{first, unknown, second, dropped})
	if want := []core.ObjectID{unknown, dropped}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	git("checkout", "-q", string(dropped))
	if got, err := h.Missing(t.Context(), repo.Record("agentbox/x"), []core.ObjectID{dropped}); err != nil || len(got) != 0 {
		t.Errorf("on a detached HEAD: %v, %v", got, err)
	}
	if got, err := h.Missing(t.Context(), repo.Record("agentbox/x"), nil); err != nil || len(got) != 0 {
		t.Errorf("nothing asked: %v, %v", got, err)
	}
}

func TestVersionNamesTheProgram(t *testing.T) {
	h, _, _ := lookupRepo(t)
	if got, err := h.Version(t.Context()); err != nil || !strings.HasPrefix(got, "git version ") || !strings.Contains(got, "/git") {
		t.Errorf("got %q, %v", got, err)
	}
}
