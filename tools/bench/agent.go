package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// script is the agent: it obeys one word per line and answers with one line.
// It takes times itself, on the clock that box and host share.
const script = `
cd /workspace || exit
n=0
commit() { git add --all && git commit --quiet --message="$1" && echo "$(date +%s%N) $(git rev-parse HEAD)"; }
while read -r word size; do
	case $word in
	commit) n=$((n + 1)); echo $n >counter; commit "$n" ;;
	large) dd if=/dev/urandom of=large bs=1M count="$size" status=none; commit large ;;
	push) begin=$(date +%s%N); git push --quiet || exit; echo "$(($(date +%s%N) - begin))" ;;
	esac
done`

// agent is the script at work in a box.
type agent struct {
	box  box
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	said *bytes.Buffer // what git told on the side; read once cmd has ended
}

func (w *world) enter(ctx context.Context, b box) (*agent, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(w.bin, "agentbox"), "shell", b.Name, "--", "bash", "-c", script)
	cmd.Dir = w.project
	cmd.Env = append(os.Environ(), "AGENTBOX_HOME="+w.home)
	said := &bytes.Buffer{}
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &agent{b, cmd, in, bufio.NewReader(out), said}, cmd.Start()
}

func (a *agent) close() error {
	if err := errors.Join(a.in.Close(), a.cmd.Wait()); err != nil {
		return fmt.Errorf("the agent failed: %w\n%s", err, a.said)
	}
	return nil
}

// obey sends a line and returns the fields and the number that the answer
// begins with.
func (a *agent) obey(line string) (int64, []string, error) {
	if _, err := fmt.Fprintln(a.in, line); err != nil {
		return 0, nil, err
	}
	answer, err := a.out.ReadString('\n')
	if err != nil {
		return 0, nil, fmt.Errorf("the agent did not answer to %q: %w", line, err)
	}
	fields := strings.Fields(answer)
	if len(fields) == 0 {
		return 0, nil, fmt.Errorf("the agent answered to %q with nothing", line)
	}
	n, err := strconv.ParseInt(fields[0], 10, 64)
	return n, fields, err
}

// commit makes a small commit and tells when it was done and its id.
func (a *agent) commit() (time.Time, string, error) {
	at, fields, err := a.obey("commit")
	if err != nil {
		return time.Time{}, "", err
	}
	return time.Unix(0, at), fields[len(fields)-1], nil
}

// large commits so many MB that no compression makes smaller.
func (a *agent) large(size int) error {
	_, _, err := a.obey("large " + strconv.Itoa(size))
	return err
}

func (a *agent) push() (time.Duration, error) {
	took, _, err := a.obey("push")
	return time.Duration(took), err
}

// watcher notes when a ref's file got which value.
type watcher struct {
	stop context.CancelFunc
	wake chan struct{}

	mu   sync.Mutex
	seen map[string]time.Time
}

// interval is how exact the time of a landing is.
const interval = time.Millisecond

func watch(ctx context.Context, file string) *watcher {
	ctx, stop := context.WithCancel(ctx)
	w := &watcher{stop: stop, wake: make(chan struct{}, 1), seen: map[string]time.Time{}}
	go func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if data, err := os.ReadFile(file); err == nil {
					w.note(strings.TrimSpace(string(data)))
				}
			}
		}
	}()
	return w
}

func (w *watcher) note(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.seen[id]; known {
		return
	}
	w.seen[id] = time.Now()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// patience is how long a commit may take to land before the run is given up.
const patience = 10 * time.Second

func (w *watcher) await(ctx context.Context, id string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		w.mu.Lock()
		at, ok := w.seen[id]
		w.mu.Unlock()
		if ok {
			return at, nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("commit %s did not land: %w", id, ctx.Err())
		case <-w.wake:
		}
	}
}
