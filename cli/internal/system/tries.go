package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/relay/client"
	"github.com/madarco/agentbox/sandbox-core/state"
)

// Tries are what `agentbox doctor` tries on this machine.
func (sys *System) Tries() []provider.Try {
	tries := []provider.Try{
		{Name: "state folder", Run: sys.tryHome},
		{Name: "state file", Run: sys.tryState},
		{Name: "configuration", Run: sys.tryConfig},
		{Name: "git", Run: sys.tryGit},
		{Name: "relay", Run: sys.tryRelay, Soft: true},
	}
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

func (sys *System) tryGit(ctx context.Context) (string, error) {
	git, err := sys.git()
	if err != nil {
		return "", err
	}
	return git.Version(ctx)
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
