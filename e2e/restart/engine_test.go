package restart

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds what an engine may take to come up or to end.
const patience = 2 * time.Minute

// engine is a dockerd with everything that it keeps in one folder. It touches
// neither the firewall nor the default bridge of the machine, whose other engine
// goes on beside it.
type engine struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
}

// newEngine starts an engine. It skips where that can't be, and fails there in CI.
func newEngine(t *testing.T) *engine {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin") // where dockerd lies
	if _, err := exec.LookPath("dockerd"); err != nil || os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatalf("an engine of its own takes root and dockerd: %v", err)
		}
		t.Skipf("an engine of its own takes root and dockerd: %v", err)
	}
	dir, err := os.MkdirTemp("", "abe") // sockets lie below it
	must(t, err)
	e := &engine{t: t, dir: dir}
	t.Cleanup(func() {
		e.stop()
		e.unmount()
		must(t, os.RemoveAll(dir))
	})
	e.start()
	return e
}

// host is the engine's address, as DOCKER_HOST.
func (e *engine) host() string { return "unix://" + e.socket() }

func (e *engine) socket() string { return filepath.Join(e.dir, "s") }

func (e *engine) start() {
	e.t.Helper()
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(e.t, err)
	defer log.Close()
	e.cmd = exec.Command("dockerd", "--data-root", filepath.Join(e.dir, "data"), "--exec-root", filepath.Join(e.dir, "run"),
		"--pidfile", filepath.Join(e.dir, "pid"), "--host", e.host(), "--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false")
	e.cmd.Stdout, e.cmd.Stderr = log, log
	must(e.t, e.cmd.Start())
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", e.socket())
	}}}
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/_ping", nil)
		must(e.t, err)
		if answer, err := client.Do(request); err == nil {
			answer.Body.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			text, _ := os.ReadFile(log.Name())
			e.t.Fatalf("the engine does not come up:\n%s", text)
		}
	}
}

// stop ends the engine in order: it stops its containers first.
func (e *engine) stop() {
	_ = e.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(patience, func() { _ = e.cmd.Process.Kill() })
	defer late.Stop()
	_ = e.cmd.Wait()
}

// cut ends the engine, all that belongs to it, and what runs in its containers,
// as a power cut does: nobody gets to do anything, and what lay in memory, below
// /run and in mounts, is gone.
func (e *engine) cut() {
	e.t.Helper()
	pids := append(e.processes(), e.inits()...)
	_ = e.cmd.Process.Kill()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			e.t.Error(err)
		}
	}
	_ = e.cmd.Wait()
	for _, pid := range pids {
		awaitEnd(e.t, pid)
	}
	e.unmount()
	must(e.t, os.RemoveAll(filepath.Join(e.dir, "run")))
}

// processes are the engine's other programs: they name its folder.
func (e *engine) processes() []int {
	e.t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(e.t, err)
	var pids []int
	for _, file := range lines {
		text, err := os.ReadFile(file)
		pid, bad := strconv.Atoi(strings.Split(file, "/")[2])
		if err == nil && bad == nil && strings.Contains(string(text), filepath.Join(e.dir, "run")+"/containerd") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// inits are the first processes of the containers; the kernel ends the others.
func (e *engine) inits() []int {
	e.t.Helper()
	var pids []int
	for _, id := range strings.Fields(e.docker("ps", "--quiet")) {
		pid, err := strconv.Atoi(strings.TrimSpace(e.docker("inspect", "--format", "{{.State.Pid}}", id)))
		must(e.t, err)
		pids = append(pids, pid)
	}
	return pids
}

func (e *engine) docker(args ...string) string {
	e.t.Helper()
	cmd := exec.Command("docker", append([]string{"--host", e.host()}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		e.t.Fatalf("docker %v: %v: %s", args, err, out)
	}
	return string(out)
}

// unmount takes away what is mounted below the engine's folder.
func (e *engine) unmount() {
	e.t.Helper()
	table, err := os.Open("/proc/self/mountinfo")
	must(e.t, err)
	defer table.Close()
	var points []string
	for lines := bufio.NewScanner(table); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 && strings.HasPrefix(fields[4], e.dir+"/") {
			points = append(points, fields[4])
		}
	}
	slices.Reverse(points) // the latest lies on top
	for _, point := range points {
		must(e.t, syscall.Unmount(point, syscall.MNT_DETACH))
	}
}

// awaitEnd waits until a process that was killed is gone, or waits for a parent
// that does not look.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, state, ok := strings.Cut(string(stat), ") "); err != nil || ok && strings.HasPrefix(state, "Z") {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("process %d does not end", pid)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
