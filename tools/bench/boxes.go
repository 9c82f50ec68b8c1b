package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// boxes measures a create, landing and pushes, and notes what the processes hold.
func boxes(ctx context.Context, o options) (rows []row, notes []string, err error) {
	w, err := newWorld(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	first, err := w.create(ctx) // makes image and seed, and starts the relay
	if err != nil {
		return nil, nil, err
	}
	if o.only != "push" {
		if rows, err = w.measureCreate(ctx, o.rounds, first.Image); err != nil {
			return nil, nil, err
		}
	}
	a, err := w.enter(ctx, first)
	if err != nil {
		return nil, nil, err
	}
	if o.only != "push" {
		landed, err := w.measureLanding(ctx, o.rounds, a)
		if err != nil {
			return nil, nil, errors.Join(err, a.close())
		}
		rows = append(rows, landed)
	}
	pushed, said, err := w.measurePush(ctx, o, a)
	if err := errors.Join(err, a.close()); err != nil {
		return nil, nil, err
	}
	notes, err = w.memory(ctx, first)
	return append(rows, pushed...), append(said, notes...), err
}

// measureCreate holds a create against the same parts made by hand.
func (w *world) measureCreate(ctx context.Context, rounds int, image string) ([]row, error) {
	const network, container = "agentbox-bench-floor", "agentbox-bench-floor"
	tree := filepath.Join(w.dir, "tree")
	floor := func(ctx context.Context) (time.Duration, error) {
		took, err := timed(func(ctx context.Context) error {
			_, err := w.docker(ctx, "network", "create", network)
			if err == nil {
				_, err = w.docker(ctx, "run", "--detach", "--init", "--name", container, "--network", network, "--entrypoint", "sleep", image, "600")
			}
			if err == nil {
				_, err = w.git(ctx, "worktree", "add", "--quiet", "--detach", tree)
			}
			return err
		})(ctx)
		_, rmErr := w.docker(ctx, "rm", "--force", container)
		_, netErr := w.docker(ctx, "network", "rm", network)
		_, treeErr := w.git(ctx, "worktree", "remove", "--force", tree)
		return took, errors.Join(err, rmErr, netErr, treeErr)
	}
	ours := func(ctx context.Context) (time.Duration, error) {
		begin := time.Now()
		b, err := w.create(ctx)
		took := time.Since(begin)
		if err != nil {
			return 0, err
		}
		return took, w.destroy(ctx, b.Name)
	}
	times, err := interleave(ctx, rounds, floor, ours)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("agentbox create, %d files", filesInProject)
	return []row{over(name, times[1], "docker network create + run, git worktree add", times[0], "≤ +250 ms")}, nil
}

// measureLanding is the time from a commit in the box to the user's branch.
func (w *world) measureLanding(ctx context.Context, rounds int, a *agent) (row, error) {
	seen := watch(ctx, filepath.Join(w.project, ".git", "refs", "heads", filepath.FromSlash(a.box.Branch)))
	defer seen.stop()
	var times series
	for range rounds {
		at, commit, err := a.commit()
		if err != nil {
			return row{}, err
		}
		landed, err := seen.await(ctx, commit)
		if err != nil {
			return row{}, err
		}
		times = append(times, landed.Sub(at))
	}
	return alone("commit until landed", times, "≤ 300 ms"), nil
}

// measurePush holds a push of the box against one of the user.
func (w *world) measurePush(ctx context.Context, o options, a *agent) ([]row, []string, error) {
	direct := func(ctx context.Context) (time.Duration, error) {
		if _, err := w.git(ctx, "commit", "--quiet", "--allow-empty", "--message=direct"); err != nil {
			return 0, err
		}
		return timed(func(ctx context.Context) error {
			_, err := w.git(ctx, "push", "--quiet", "origin", "HEAD:refs/heads/direct")
			return err
		})(ctx)
	}
	relayed := func(context.Context) (time.Duration, error) {
		if _, _, err := a.commit(); err != nil {
			return 0, err
		}
		return a.push()
	}
	times, err := interleave(ctx, o.rounds, direct, relayed)
	if err != nil {
		return nil, nil, err
	}
	rows := []row{beyond("git push in the box", times[1], "git push of the user", times[0], 1.3, 50*time.Millisecond)}
	if o.large == 0 {
		return rows, nil, nil
	}
	largeDirect := func(ctx context.Context) (time.Duration, error) {
		data := fmt.Sprintf("dd if=/dev/urandom of=large bs=1M count=%d status=none && git add large && git commit --quiet --message=large", o.large)
		if _, err := w.shell(ctx, data); err != nil {
			return 0, err
		}
		return direct(ctx)
	}
	largeRelayed := func(context.Context) (time.Duration, error) {
		if err := a.large(o.large); err != nil {
			return 0, err
		}
		return a.push()
	}
	relay, err := w.relayPID()
	if err != nil {
		return nil, nil, err
	}
	before, highest := private(relay), peak(ctx, relay)
	if times, err = interleave(ctx, 1, largeDirect, largeRelayed); err != nil {
		return nil, nil, err
	}
	note := fmt.Sprintf("relay, private memory, before and at most while %d MB go through: %s, %s (flat)", o.large, before, highest())
	name := fmt.Sprintf("the same with %d MB", o.large)
	return append(rows, ratio(name, times[1], "git push of the user", times[0], "≤ 1.15 ×")), []string{note}, nil
}

func (w *world) relayPID() (string, error) {
	pid, err := os.ReadFile(filepath.Join(w.home, "relay.pid"))
	if err != nil {
		return "", err
	}
	return strings.Fields(string(pid))[0], nil
}

// peak watches the private memory of a process until highest is called.
func peak(ctx context.Context, pid string) (highest func() string) {
	ctx, stop := context.WithCancel(ctx)
	most, result := 0, make(chan int)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				result <- most
				return
			case <-tick.C:
				var kb int
				if _, err := fmt.Sscanf(private(pid), "%d kB", &kb); err == nil {
					most = max(most, kb)
				}
			}
		}
	}()
	return func() string {
		stop()
		return fmt.Sprintf("%d kB", <-result)
	}
}

// memory tells what the relay and the box's supervisor keep for themselves.
func (w *world) memory(ctx context.Context, b box) ([]string, error) {
	relay, err := w.relayPID()
	if err != nil {
		return nil, err
	}
	notes := []string{"relay, private memory: " + private(relay) + " (≤ 12 MB)"}
	processes, err := w.docker(ctx, "top", b.Container, "-o", "pid,comm")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(processes) {
		if pid, name, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(strings.TrimSpace(name), "agentbox-ctl") {
			notes = append(notes, "agentbox-ctl "+pid+", private memory: "+private(pid)+" (≤ 10 MB together)")
		}
	}
	return notes, nil
}

// private is RssAnon of a process, see proc(5).
func private(pid string) string {
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
