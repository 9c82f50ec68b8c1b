package initd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary is its own process 1 and daemon, chosen by this variable.
const roleVar = "INITD_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role, arg, _ := strings.Cut(os.Getenv(roleVar), " "); role {
	case "init":
		os.Exit(beInit(arg))
	case "daemon":
		beDaemon()
	default:
		os.Exit(m.Run())
	}
}

// beInit is process 1 of a new pid namespace with a /proc of its own.
func beInit(fifo string) int {
	err := errors.Join(
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("proc", "/proc", "proc", 0, ""),
		os.Setenv(roleVar, os.Getenv("INITD_TEST_DAEMON")),
	)
	daemon := []string{"/proc/self/exe"}
	if script := os.Getenv("INITD_TEST_SCRIPT"); script != "" {
		daemon = []string{"/bin/sh", "-c", script}
	}
	if err == nil {
		err = Run(Options{Daemon: daemon, Word: fifo, Log: log.New(os.Stdout, "init: ", 0)})
	}
	if err != nil {
		fmt.Println("init failed:", err)
		return 1
	}
	return 0
}

// beDaemon runs children of its own while orphans die around it, and reports
// any exit status that went astray and any zombie that stays.
func beDaemon() {
	var all sync.WaitGroup
	var astray sync.Map
	for i := range 120 {
		all.Go(func() {
			want := i
			// The inner process outlives its parent: an orphan.
			cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("(true & true &); exit %d", want))
			err := cmd.Run()
			if got := cmd.ProcessState.ExitCode(); got != want {
				astray.Store(i, fmt.Sprintf("child %d: code %d, %v; want %d", i, got, err, want))
			}
		})
		if i%20 == 19 {
			all.Wait()
		}
	}
	all.Wait()
	astray.Range(func(_, text any) bool { fmt.Println(text); return true })
	for zombies() > 0 { // reaped soon, or the test times out
	}
	fmt.Println("daemon: no zombies")
	select {}
}

func zombies() (n int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, _ := os.ReadFile(path)
		if _, rest, _ := strings.Cut(string(text), ") "); strings.HasPrefix(rest, "Z") {
			n++
		}
	}
	return n
}

// box is a running process 1.
type box struct {
	t    *testing.T
	cmd  *exec.Cmd
	fifo string
	out  *bufio.Reader
}

// boot starts process 1 with a shell script as the daemon, or with beDaemon.
func boot(t *testing.T, script string) *box {
	t.Helper()
	b := &box{t: t, fifo: filepath.Join(t.TempDir(), "go")}
	b.cmd = exec.Command("/proc/self/exe")
	b.cmd.Env = append(os.Environ(), roleVar+"=init "+b.fifo, "INITD_TEST_DAEMON=daemon", "INITD_TEST_SCRIPT="+script)
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		b.cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		b.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		b.cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	b.out = bufio.NewReader(out)
	if err := b.cmd.Start(); err != nil {
		t.Fatalf("start process 1 in a pid namespace of its own: %v", err)
	}
	t.Cleanup(func() { b.cmd.Process.Kill(); b.cmd.Wait() })
	b.expect("init: waiting for the host")
	return b
}

// expect reads lines until one begins with want; any other fails the test.
func (b *box) expect(want string) {
	b.t.Helper()
	line, err := b.out.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, want) {
		b.t.Fatalf("it says %q, %v; want %q", line, err, want)
	}
}

func (b *box) word() {
	b.t.Helper()
	if err := Tell(b.t.Context(), b.fifo); err != nil {
		b.t.Fatal(err)
	}
}

// ends wants nothing more to be said, and exit code 0.
func (b *box) ends() {
	b.t.Helper()
	if rest, err := io.ReadAll(b.out); err != nil || len(rest) > 0 {
		b.t.Errorf("it says %q, %v at its end", rest, err)
	}
	if err := b.cmd.Wait(); err != nil {
		b.t.Errorf("process 1: %v", err)
	}
}

func TestNoZombieStaysAndNoExitStatusIsStolen(t *testing.T) {
	b := boot(t, "")
	b.word()
	b.expect("daemon: no zombies")
}

func TestTheDaemonStartsOnTheWordAlone(t *testing.T) {
	b := boot(t, `trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 1000 & wait; done`)
	b.word()
	b.expect("up")
	b.cmd.Process.Signal(syscall.SIGTERM)
	b.expect("bye")
	b.ends()
}

func TestABoxThatStopsBeforeTheWordStepsDown(t *testing.T) {
	b := boot(t, `echo up`)
	b.cmd.Process.Signal(syscall.SIGTERM)
	b.ends()
}

func TestADaemonThatDiesIsStartedAgain(t *testing.T) {
	b := boot(t, `echo up; kill -KILL $$`)
	b.word()
	b.expect("up")
	b.expect("init: the daemon died of signal 9 (killed); it is started again in 500ms")
	b.expect("up")
	b.expect("init: the daemon died of signal 9 (killed); it is started again in 1s")
}

func TestASecondWordAndHangupReachTheDaemon(t *testing.T) {
	b := boot(t, `trap 'echo again' HUP; echo up; while :; do sleep 1000 & wait; done`)
	b.word()
	b.expect("up")
	b.word()
	b.expect("again")
	b.cmd.Process.Signal(syscall.SIGHUP)
	b.expect("again")
}

func TestWhatTheDaemonLeavesBehindIsAskedToEnd(t *testing.T) {
	b := boot(t, `setsid sh -c 'trap "echo orphan ends; exit" TERM; echo orphan up; while :; do sleep 1000 & wait; done' & wait; echo unreached`)
	b.word()
	b.expect("orphan up")
	b.cmd.Process.Signal(syscall.SIGTERM)
	b.expect("orphan ends")
	b.ends()
}

func TestASecondSignalKillsADaemonThatWillNotStop(t *testing.T) {
	b := boot(t, `trap 'echo no' TERM INT; echo up; while :; do sleep 1000 & wait; done`)
	b.word()
	b.expect("up")
	b.cmd.Process.Signal(syscall.SIGTERM)
	b.expect("no")
	b.cmd.Process.Signal(syscall.SIGINT)
	b.ends()
}

func TestRunRefusesToBeAnyOtherProcess(t *testing.T) {
	if err := Run(Options{}); err == nil {
		t.Error("it ran")
	}
}

func TestTheWaitGrowsAndALongLifeResetsIt(t *testing.T) {
	var wait time.Duration
	for i, want := range []time.Duration{500, 1000, 2000, 4000, 8000, 16000, 30000, 30000} {
		if wait = nextWait(wait, time.Second); wait != want*time.Millisecond {
			t.Errorf("wait %d = %v, want %v ms", i, wait, want)
		}
	}
	if got := nextWait(wait, longRun); got != firstWait {
		t.Errorf("after a long life the wait is %v", got)
	}
}

func TestTellWaitsForAListenerAndEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "go")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Tell(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("Tell = %v", err)
	}
	told := make(chan error, 1)
	go func() { told <- Tell(t.Context(), path) }()
	words, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	<-words
	if err := <-told; err != nil {
		t.Error(err)
	}
}

func TestSomethingElseInTheWayIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "go")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(path); err == nil {
		t.Error("a file was taken for a FIFO")
	}
}
