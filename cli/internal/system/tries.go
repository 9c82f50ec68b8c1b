package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/relay/client"
	"github.com/madarco/agentbox/relay/gitgate"
	"github.com/madarco/agentbox/sandbox-core/state"
	"github.com/madarco/agentbox/sandbox-core/workspace"
)

// Tries are what `agentbox doctor` tries on this machine.
func (sys *System) Tries() []provider.Try {
	tries := []provider.Try{
		{Name: "state folder", Run: sys.tryHome},
		{Name: "state file", Run: sys.tryState},
		{Name: "free space", Run: sys.tryDisk, Soft: true},
		{Name: "configuration", Run: sys.tryConfig},
		{Name: "git", Run: sys.tryGit},
		{Name: "relay", Run: sys.tryRelay, Soft: true},
		{Name: "this project", Run: sys.tryProject, Soft: true},
	}
	tries = append(tries, sys.integrationTries()...)
	docker, err := sys.docker()
	if err != nil {
		return append(tries, provider.Try{Name: "docker", Run: func(context.Context) (string, error) { return "", err }})
	}
	if e, ok := docker.(provider.Examiner); ok {
		tries = append(tries, e.Tries()...)
	}
	return append(tries, provider.Try{Name: "file watches", Run: sys.tryWatches, Soft: true})
}

// tryHome writes a file where the state lies.
func (sys *System) tryHome(context.Context) (string, error) {
	home, err := sys.Home()
	if err == nil {
		err = home.Create()
	}
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(string(home), "doctor.*")
	if err != nil {
		return "", fmt.Errorf("write into the state folder: %w", err)
	}
	return string(home), errors.Join(f.Close(), os.Remove(f.Name()))
}

func (sys *System) tryState(context.Context) (string, error) {
	home, err := sys.Home()
	if err != nil {
		return "", err
	}
	st, err := state.Open(home).Read()
	if err != nil {
		return "", err
	}
	return countBoxes(len(st.Boxes)), nil
}

func countBoxes(n int) string {
	if n == 1 {
		return "1 box"
	}
	return fmt.Sprintf("%d boxes", n)
}

func (sys *System) tryConfig(context.Context) (string, error) {
	c, err := sys.Config()
	if err != nil {
		return "", err
	}
	if len(c.Unattended) == 0 {
		return "only a person answers approvals", nil
	}
	return fmt.Sprintf("a program may answer %v", c.Unattended), nil
}

// tryGit does with git what a create does.
func (sys *System) tryGit(ctx context.Context) (string, error) {
	git, err := sys.git()
	if err != nil {
		return "", err
	}
	if err := git.Try(ctx); err != nil {
		return "", err
	}
	return git.Version(ctx)
}

// tryProject looks at the folder that the user stands in as a create would,
// and writes nothing.
func (sys *System) tryProject(ctx context.Context) (string, error) {
	root, err := sys.Project("")
	if err != nil {
		return "", err
	}
	project, err := sys.Open(ctx, "", workspace.Options{})
	if err != nil {
		return "", err
	}
	if len(project.Repos("agentbox/doctor")) == 0 {
		return root + ": a plain folder; a box of it has no branch", nil
	}
	git, err := sys.git()
	if err != nil {
		return "", err
	}
	repo, err := git.Open(ctx, root)
	if err != nil {
		return "", err
	}
	carry, err := git.Capture(ctx, repo, gitgate.CaptureOptions{})
	if err != nil {
		return "", err
	}
	return describe(repo, carry), nil
}

// describe says in a line what a box would get.
func describe(r *gitgate.Repository, c *gitgate.Carry) string {
	parts := []string{"detached HEAD at " + r.Head.Short()}
	if r.Branch != "" {
		parts[0] = "branch " + r.Branch + " at " + r.Head.Short()
	}
	if r.Remote == "" {
		parts = append(parts, "no remote, so nothing can be pushed")
	} else {
		parts = append(parts, "pushes go to "+string(r.Remote))
	}
	odd := []struct {
		is   bool
		what string
	}{
		{r.Linked, "a linked work tree"},
		{len(r.Shallow) > 0, "a shallow clone"},
		{r.Partial, "a partial clone"},
		{len(c.LeftOut) > 0, fmt.Sprintf("%d untracked that stay here; create names them", len(c.LeftOut))},
	}
	if n := c.Staged + c.Unstaged + c.Deleted + c.Untracked + c.Conflicts; n > 0 {
		parts = append(parts, fmt.Sprintf("%d uncommitted changes go along", n))
	}
	for _, o := range odd {
		if o.is {
			parts = append(parts, o.what)
		}
	}
	return strings.Join(append(parts, c.Notes...), ", ")
}

// minFree is less than what one image and a few boxes take.
const minFree = 5 << 30

// tryDisk looks for room where the stores of repositories and the records lie.
func (sys *System) tryDisk(context.Context) (string, error) {
	home, err := sys.Home()
	if err != nil {
		return "", err
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(string(home), &fs); err != nil {
		return "", fmt.Errorf("ask for the free space of %s: %w", home, err)
	}
	free := int64(fs.Bavail) * int64(fs.Bsize) //nolint:gosec,unconvert // the types differ between systems
	if free < minFree {
		return "", fmt.Errorf("%d MB are free at %s: a box image alone takes more; make room, or set AGENTBOX_HOME to another disk", free>>20, home)
	}
	return fmt.Sprintf("%d GB free at %s", free>>30, home), nil
}

// tryRelay asks the relay, if one runs, and starts none.
func (sys *System) tryRelay(ctx context.Context) (string, error) {
	h, err := sys.Daemon().Status(ctx)
	switch {
	case errors.Is(err, client.ErrNotRunning):
		return "does not run; commands that need it start it", nil
	case err != nil:
		return "", err
	case h.Version != sys.Version:
		return "", fmt.Errorf("relay of version %s, this is %s: the next create or start replaces it", h.Version, sys.Version)
	}
	return fmt.Sprintf("process %d, %s, approvals %s", h.PID, countBoxes(h.Boxes), h.Approvals), nil
}

// minWatches and minInstances leave room for an agent's own tools, which watch
// whole projects; the limits count per user, and boxes share one.
const minWatches, minInstances = 65536, 128

// tryWatches reads the kernel's limits of inotify, see inotify(7).
func (sys *System) tryWatches(context.Context) (string, error) {
	const dir = "/proc/sys/fs/inotify"
	var got [2]int
	for i, limit := range []struct {
		name  string
		least int
	}{{"max_user_watches", minWatches}, {"max_user_instances", minInstances}} {
		text, err := os.ReadFile(filepath.Join(dir, limit.name))
		if errors.Is(err, os.ErrNotExist) {
			return "no inotify on this system", nil
		}
		if err != nil {
			return "", err
		}
		if got[i], err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			return "", err
		}
		if got[i] < limit.least {
			return "", fmt.Errorf("fs.inotify.%s is %d: tools that watch files may fail in boxes; sysctl -w fs.inotify.%s=%d", limit.name, got[i], limit.name, limit.least)
		}
	}
	return fmt.Sprintf("%d watches, %d instances", got[0], got[1]), nil
}
