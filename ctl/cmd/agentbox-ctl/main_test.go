package main

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/daemon"
)

// ctl runs a command in this process.
func ctl(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, words bytes.Buffer
	code = run(t.Context(), args, streams{strings.NewReader(stdin), &out, &words})
	return code, out.String(), words.String()
}

// build makes the program as releases do, once for all tests that need it.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agentbox-ctl")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X main.version=v1.2.3", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

var initLine = regexp.MustCompile(`(?m)^init (\S+) @\S+ ms, (\S+) ms clock`)

func TestTheProgramIsStaticAndStartsAtOnce(t *testing.T) {
	path := build(t)
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program needs a dynamic linker")
		}
	}
	// The least of many runs is the package's own cost; on a busy machine a
	// single run can be interrupted anywhere, and where even /bin/true takes
	// longer than the limit, that is the limit.
	least := map[string]float64{}
	floor := math.Inf(1)
	for range 30 {
		began := time.Now()
		if err := exec.Command("/bin/true").Run(); err != nil {
			t.Fatal(err)
		}
		floor = min(floor, float64(time.Since(began))/float64(time.Millisecond))
		cmd := exec.Command(path, "version")
		cmd.Env = []string{"GODEBUG=inittrace=1"}
		var trace, out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &trace
		if err := cmd.Run(); err != nil || out.String() != "agentbox-ctl v1.2.3\n" {
			t.Fatalf("version = %q, %v", out.String(), err)
		}
		for _, m := range initLine.FindAllStringSubmatch(trace.String(), -1) {
			ms, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			if old, seen := least[m[1]]; !seen || ms < old {
				least[m[1]] = ms
			}
		}
	}
	if len(least) == 0 {
		t.Fatal("no package was traced")
	}
	for name, ms := range least {
		if ms > max(1, floor) {
			t.Errorf("the start of package %s takes %v ms", name, ms)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	path := filepath.Join(b.TempDir(), "agentbox-ctl")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	for name, program := range map[string]string{"floor": "/bin/true", "version": path} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := exec.Command(program, "version").Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestUnknownCommandsAndFlagsFail(t *testing.T) {
	for _, args := range [][]string{{}, {"dance"}, {"status", "--loud"}, {"daemon", "--config", "x"}} {
		if code, out, words := ctl(t, "", args...); code != 1 || out != "" || words == "" {
			t.Errorf("%q = %d, %q, %q", args, code, out, words)
		}
	}
	if code, out, _ := ctl(t, "", "--help"); code != 0 || !strings.Contains(out, "status") {
		t.Errorf("--help = %d, %q", code, out)
	}
}

func TestStatusAndLandOfADeadDaemonSayWhatToDo(t *testing.T) {
	for _, args := range [][]string{{"status"}, {"status", "-j"}, {"land"}} {
		code, out, words := ctl(t, "", append(args, "--socket", "/nonexistent/ctl.sock")...)
		if code != 1 || out != "" || !strings.Contains(words, "not running") || !strings.Contains(words, "agentbox start") {
			t.Errorf("%q = %d, %q, %q", args, code, out, words)
		}
	}
}

func TestSetupReportsAFailureInJSON(t *testing.T) {
	code, out, _ := ctl(t, "not a stream, and long enough to be read", "setup")
	var report struct {
		OK    bool
		Error string
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 1 || report.OK || !strings.Contains(report.Error, "different versions") {
		t.Errorf("setup = %d, %q", code, out)
	}
}

func TestInitRefusesToBeAnOrdinaryProcess(t *testing.T) {
	if code, _, words := ctl(t, "", "init"); code != 1 || !strings.Contains(words, "process 1") {
		t.Errorf("init = %d, %q", code, words)
	}
}

// TestOneDaemonWhateverHappens starts the real program several times over, and
// again after it was killed.
func TestOneDaemonWhateverHappens(t *testing.T) {
	path := build(t)
	dir, err := os.MkdirTemp("", "c") // t.TempDir can exceed a socket path's room
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	flags := []string{"--socket", filepath.Join(dir, "ctl.sock"), "--state-dir", filepath.Join(dir, "state")}
	env := []string{"AGENTBOX_RELAY_ENV_FILE=" + filepath.Join(dir, "none"), "PATH=" + os.Getenv("PATH")}
	start := func() *exec.Cmd {
		cmd := exec.Command(path, append([]string{"daemon"}, flags...)...)
		cmd.Env = env
		words, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(words).ReadString('\n'); !strings.Contains(line, "listening on") {
			t.Fatalf("the daemon says %q, %v", line, err)
		}
		return cmd
	}
	pid := func() int {
		code, out, words := ctl(t, "", append([]string{"status", "-j"}, flags[:2]...)...)
		var status daemon.Status
		if err := json.Unmarshal([]byte(out), &status); code != 0 || err != nil {
			t.Fatalf("status = %d, %q, %q", code, out, words)
		}
		return status.PID
	}
	first := start()
	for range 5 {
		cmd := exec.Command(path, append([]string{"daemon"}, flags...)...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "steps back") {
			t.Errorf("a second daemon: %v, %q", err, out)
		}
	}
	if got := pid(); got != first.Process.Pid {
		t.Errorf("process %d answers, want the first, %d", got, first.Process.Pid)
	}
	first.Process.Kill()
	first.Wait()
	second := start()
	if got := pid(); got != second.Process.Pid {
		t.Errorf("process %d answers, want the second, %d", got, second.Process.Pid)
	}
	second.Process.Signal(syscall.SIGTERM)
	if err := second.Wait(); err != nil {
		t.Errorf("the daemon ends with %v", err)
	}
}

// relay is a stand-in that records calls and answers each with exit code 0.
func relay(t *testing.T) (url string, calls chan string) {
	calls = make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var req wire.Request
		if err := wire.Decode(body, &req); err != nil {
			t.Errorf("the request is malformed: %v", err)
		}
		calls <- r.URL.Path + " " + r.Header.Get("Authorization") + " " + req.Method + " " + string(req.Params)
		io.WriteString(w, `{"exitCode":0,"stdout":"done\n","stderr":""}`)
	}))
	t.Cleanup(server.Close)
	return server.URL, calls
}

func TestTheRelaysAddressComesFromTheFileForWhatTheEnvironmentLacks(t *testing.T) {
	url, calls := relay(t)
	work := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "-b", "agentbox/b", work},
		{"-C", work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	oid, err := exec.Command("git", "-C", work, "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "relay.env")
	t.Setenv("AGENTBOX_RELAY_ENV_FILE", file)
	t.Setenv("AGENTBOX_RELAY_URL", "")
	t.Setenv("AGENTBOX_RELAY_TOKEN", "")
	push := []string{"git", "push", "--cwd", work, "--host-only", "--as", "topic", "--force"}
	code, _, words := ctl(t, "", push...)
	if code != 65 || !strings.Contains(words, "AGENTBOX_RELAY_URL") {
		t.Errorf("without a relay: %d, %q", code, words)
	}
	if err := os.WriteFile(file, []byte("AGENTBOX_RELAY_URL="+url+"\r\nAGENTBOX_RELAY_TOKEN=tok=en==\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	params := `{"path":"` + work + `","branch":"agentbox/b","oid":"` + strings.TrimSpace(string(oid)) + `","hostOnly":true,"as":"topic","force":true}`
	if code, out, words := ctl(t, "", push...); code != 0 || out != "done\n" {
		t.Errorf("push = %d, %q, %q", code, out, words)
	}
	if got, want := <-calls, "/rpc Bearer tok=en== git.push "+params; got != want {
		t.Errorf("the relay was asked %s, want %s", got, want)
	}
	t.Setenv("AGENTBOX_RELAY_TOKEN", "envtok")
	ctl(t, "", push...)
	if got := <-calls; !strings.HasPrefix(got, "/rpc Bearer envtok ") {
		t.Errorf("the relay was asked %s", got)
	}
}

func TestParseGit(t *testing.T) {
	for line, want := range map[string]string{
		"push":                              "push  []",
		"push -u origin HEAD":               "push  [-u origin HEAD]",
		"push --remote up --cwd=/w --tags":  "push up/w [--tags]",
		"fetch -- --remote x":               "fetch  [--remote x]",
		"pull --ff-only":                    "pull  [--ff-only]",
		"push --force":                      "push  [--force]",
		"push --host-only":                  "push  [] host",
		"push --host-only --as t/x --force": "push  [] host as t/x forced",

		"":                                "error",
		"clone x":                         "error",
		"push --remote":                   "error",
		"push --as x":                     "error",
		"push --host-only --remote x":     "error",
		"pull --host-only":                "error",
		"push --host-only --tags":         "error",
		"push --host-only --as -D":        "error",
		"push --host-only --as x:y":       "error",
		"push --host-only --as a/../main": "error",
	} {
		c, err := parseGit(strings.Fields(line))
		got := string(c.Op) + " " + c.Remote + c.Dir + " [" + strings.Join(c.Args, " ") + "]"
		if c.hostOnly {
			got += " host"
		}
		if c.as != "" {
			got += " as " + string(c.as)
		}
		if c.force {
			got += " forced"
		}
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("parseGit(%s) = %s, want %s", line, got, want)
		}
	}
	if code, _, words := ctl(t, "", "git", "push", "--as", "x"); code != 64 || words == "" {
		t.Errorf("bad usage = %d, %q", code, words)
	}
}
