package oddrepos

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/core"
)

// limit bounds one command; the first create may have to build the image.
const limit = 15 * time.Minute

// machine is a user's home with the built command.
type machine struct {
	t              *testing.T
	agentbox, home string
	project        string
}

// newMachine stops the relay and removes all boxes at the end.
func newMachine(t *testing.T) machine {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "docker", "info").CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no engine answers: %s", out)
		}
		t.Skipf("no engine answers; scripts/engine starts one: %s", out)
	}
	bin := must(filepath.Abs("../../bin/agentbox"))
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("%v; run scripts/build first", err)
	}
	home, err := os.MkdirTemp("", "abx") // a socket path has little room
	check(t, err)
	m := machine{t: t, agentbox: bin, home: home, project: "/"}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		for _, args := range [][]string{{"destroy", "--all", "--force"}, {"relay", "stop"}} {
			if out, errOut, code := m.run(ctx, args...); code != 0 && !strings.Contains(errOut, "no box") {
				t.Errorf("agentbox %q: exit %d\n%s%s", args, code, out, errOut)
			}
		}
		check(t, os.RemoveAll(home))
	})
	return m
}

func (m machine) run(ctx context.Context, args ...string) (out, errOut string, code int) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, m.agentbox, args...)
	cmd.Dir, cmd.Env = m.project, append(os.Environ(), "AGENTBOX_HOME="+m.home, "NO_COLOR=1")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return "", err.Error(), -1
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

func (m machine) ok(args ...string) string {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), limit)
	defer cancel()
	out, errOut, code := m.run(ctx, args...)
	if code != 0 {
		m.t.Fatalf("agentbox %q: exit %d\n%s%s", args, code, out, errOut)
	}
	return out
}

// TestOddRepositoriesInBoxes takes a few of the cases through the command and
// a real box.
func TestOddRepositoriesInBoxes(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	userConfig(t, home)
	m := newMachine(t)
	for _, name := range []string{"shallow", "sha256", "submodules", "sparse in cone mode", "merge in conflict", "git-lfs with contents", "plain directory"} {
		i := slices.IndexFunc(cases, func(c odd) bool { return c.name == name })
		t.Run(name, func(t *testing.T) {
			m := m
			m.t = t
			m.inBox(cases[i])
		})
	}
}

func (m machine) inBox(c odd) {
	t := m.t
	dir := filepath.Join(t.TempDir(), "user")
	m.project = filepath.Join(dir, "repo")
	check(t, os.Mkdir(dir, 0o755))
	c.build(t, dir)
	before := files(t, dir, nil)
	box := "odd-" + core.NewBoxID()
	m.ok("create", "--image", "lean", "--name", box)
	if diff := compare(before, files(t, dir, nil)); diff != "" {
		t.Errorf("what is the user's changed:\n%s", diff)
	}
	in := func(argv ...string) string { return m.ok(append([]string{"shell", box, "--"}, argv...)...) }
	if c.name == "plain directory" {
		if got := in("cat", "/workspace/src/a", "/workspace/odd \"name"); got != "first\nfirst\n" {
			t.Errorf("the box has %q", got)
		}
		if out := m.ok("list", "--json=name,branch"); !strings.Contains(out, box) || strings.Contains(out, "agentbox/"+box) {
			t.Errorf("list %s", out)
		}
		m.ok("status", box)
		m.ok("stop", box)
		m.ok("start", box)
		m.ok("destroy", "--yes", box)
		return
	}
	status := []string{"status", "--porcelain=v2", "-uall"}
	if want, got := git(t, m.project, status...), in(append([]string{"git", "-C", "/workspace"}, status...)...); want != got {
		t.Errorf("status in the box:\n%swant:\n%s", got, want)
	}
	if c.name == "submodules" {
		in("git", "-C", "/workspace/libs/one", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "work of the agent")
		m.ok("land", box)
		if got := git(t, filepath.Join(m.project, "libs/one"), "log", "-1", "--format=%s", "agentbox/"+box); got != "work of the agent\n" {
			t.Errorf("in the submodule landed %q", got)
		}
	}
	m.ok("destroy", "--force", box)
}
