package restart

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/e2e/laptop"
)

// TestBoxesComeBack: whatever ended the engine, the user sees what is, and one
// command brings box, branch and work back.
func TestBoxesComeBack(t *testing.T) {
	laptop.New(t).Prepare() // with the machine's own engine, which may have the image
	e := newEngine(t)
	fetchImage(t, e)
	l := laptop.New(t, "DOCKER_HOST="+e.host())
	// The machine's other engine hands out networks at the same time.
	l.Write(filepath.Join(l.State(), "config.yaml"), "box:\n  networkPool: 10.83.212.0/24\n")
	l.Create()

	t.Run("after a power cut", func(t *testing.T) { comeBack(t, l, e.cut, e.start) })
	t.Run("after an orderly restart", func(t *testing.T) { comeBack(t, l, e.stop, e.start) })
	l.OK("destroy", "--force", l.Box)
}

// fetchImage copies the box image from the machine's engine.
func fetchImage(t *testing.T, e *engine) {
	t.Helper()
	save, load := exec.Command("docker", "save", "agentbox/box:lean"), exec.Command("docker", "--host", e.host(), "load", "--quiet")
	pipe, err := save.StdoutPipe()
	must(t, err)
	load.Stdin = pipe
	must(t, save.Start())
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("load the image: %v: %s", err, out)
	}
	must(t, save.Wait())
}

// killRelay ends the relay as a crash does.
func killRelay(t *testing.T, l *laptop.Laptop) {
	t.Helper()
	text, err := os.ReadFile(core.Home(l.State()).RelayPID())
	must(t, err)
	pid, err := strconv.Atoi(strings.Fields(string(text))[0])
	must(t, err)
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	awaitEnd(t, pid)
}

func comeBack(t *testing.T, l *laptop.Laptop, down, up func()) {
	l.InBoxOK("echo landed >>log.txt && git add log.txt && git commit -qm landed")
	l.Landed(l.Branch, l.InBoxOK("git rev-parse HEAD"))
	// The next commit is made while nobody takes it in.
	box := container(t, l)
	killRelay(t, l)
	script := "echo kept >>log.txt && git commit -qam kept && echo staged >staged.txt && git add staged.txt && echo changed >>README.md && echo new >new.txt && git rev-parse HEAD && git status --porcelain=v2 -uall && sync"
	work := l.Must(exec.Command("docker", "exec", "--user", "1000", "--workdir", "/workspace", box, "sh", "-ec", script)) // agentbox would start a relay
	tip, status, _ := strings.Cut(work, "\n")

	down()
	r := l.Run("list")
	t.Logf("list without an engine: exit %d\n%s%s", r.Code, r.Out, r.Err)
	if state := stateOf(t, l.Run("list", "--json=state").Out); state != "unknown" {
		t.Errorf("without an engine the box is said to be %q", state)
	}
	if r := l.Run("start", l.Box); r.Code != 3 || !strings.Contains(r.Err, "engine") {
		t.Errorf("start without an engine: exit %d\n%s", r.Code, r.Err)
	}

	up()
	if state := stateOf(t, l.OK("list", "--json=state").Out); state != "stopped" {
		t.Errorf("after the restart the box is said to be %q", state)
	}
	l.OK("status", l.Box)
	l.OK("start", l.Box)
	for _, c := range []struct{ script, want string }{
		{"git rev-parse HEAD", tip},
		{"git symbolic-ref --short HEAD", l.Branch},
		{"git status --porcelain=v2 -uall", status},
		{"git fsck --no-dangling", ""},
	} {
		if got := l.InBoxOK(c.script); got != c.want {
			t.Errorf("after start %s says %q, want %q", c.script, got, c.want)
		}
	}
	l.Landed(l.Branch, tip)
	l.InBoxOK("git push -q -u origin HEAD && git commit -qm more -a && git push -q")
	if got, want := l.RemoteHas(l.Branch), l.InBoxOK("git rev-parse HEAD"); got != want {
		t.Errorf("the remote has %s, want %s", got, want)
	}
}

func container(t *testing.T, l *laptop.Laptop) string {
	t.Helper()
	var boxes []struct{ Container string }
	if err := json.Unmarshal([]byte(l.OK("list", "--json=container").Out), &boxes); err != nil || len(boxes) != 1 {
		t.Fatalf("list: %v, %v", boxes, err)
	}
	return boxes[0].Container
}

func stateOf(t *testing.T, list string) string {
	t.Helper()
	var boxes []struct{ State string }
	if err := json.Unmarshal([]byte(list), &boxes); err != nil || len(boxes) != 1 {
		t.Fatalf("list printed %q: %v", list, err)
	}
	return boxes[0].State
}
