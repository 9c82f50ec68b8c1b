package hostexec

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
)

// bench is a Host whose PATH is a folder of the test and the system's.
type bench struct {
	*Host
	bin   string
	boxes []core.Box
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{bin: t.TempDir()}
	t.Setenv("PATH", b.bin+":bin:/usr/bin:/bin")
	h, err := New(filepath.Join(t.TempDir(), "calls"), func(context.Context) ([]core.Box, error) { return b.boxes, nil })
	if err != nil {
		t.Fatal(err)
	}
	b.Host = h
	return b
}

// install puts a shell script on the bench's PATH.
func (b *bench) install(t *testing.T, name, text string) Program {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	p, err := b.Find(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestResultsOfPrograms(t *testing.T) {
	b := newBench(t)
	for _, test := range []struct {
		name, script, stdin string
		args                []string
		max                 int
		code                int
		stdout, stderr      string
	}{
		{name: "success", script: `echo out; echo err >&2`, stdout: "out\n", stderr: "err\n"},
		{name: "its own code", script: `exit 7`, code: 7},
		{name: "a signal", script: `kill -9 $$`, code: 137, stderr: "agentbox: it was ended by a signal: killed\n"},
		{name: "arguments are passed as they are", script: `printf '%s|' "$@"`, args: []string{"a b", "$(id)", "-x", ""}, stdout: "a b|$(id)|-x||"},
		{name: "nothing to read", script: `cat; echo end`, stdout: "end\n"},
		{name: "what is to be read", script: `cat`, stdin: "\x00\xff line\n", stdout: "\x00\xff line\n"},
		{name: "what fits", script: `printf abcd`, max: 4, stdout: "abcd"},
		{name: "what does not", script: `printf abcde`, max: 4, stdout: "abcd\n[agentbox: cut after 4 bytes]\n"},
		{name: "a cut within a character", script: `printf 'ab\303\251\303\251'`, max: 5, stdout: "ab\u00e9\n[agentbox: cut after 5 bytes]\n"},
		{name: "no terminal", script: `(: </dev/tty) 2>/dev/null && echo terminal || echo none`, stdout: "none\n"},
		{name: "no descriptor of ours", script: `(: <&3) 2>/dev/null && echo open || echo closed`, stdout: "closed\n"},
	} {
		for _, held := range []bool{false, true} {
			t.Run(test.name+" held="+strconv.FormatBool(held), func(t *testing.T) {
				c := Command{Program: b.install(t, "tool", test.script), Args: test.args, MaxOutput: test.max}
				if test.stdin != "" {
					c.Stdin = []byte(test.stdin)
				}
				if held {
					c.Started = func(int) error { return nil }
				}
				r := b.Run(t.Context(), c)
				if r.ExitCode != test.code || string(r.Stdout) != test.stdout || string(r.Stderr) != test.stderr {
					t.Errorf("code %d, stdout %q, stderr %q; want %d, %q, %q", r.ExitCode, r.Stdout, r.Stderr, test.code, test.stdout, test.stderr)
				}
			})
		}
	}
}

func TestProgramsRunInAnEmptyFolderThatGoes(t *testing.T) {
	b := newBench(t)
	r := b.Run(t.Context(), Command{Program: b.install(t, "tool", `pwd; ls -A; touch left`)})
	dir, rest, _ := strings.Cut(string(r.Stdout), "\n")
	if rest != "" || filepath.Dir(dir) != b.dir {
		t.Errorf("it ran in %q, which holds %q", dir, rest)
	}
	if entries, err := os.ReadDir(b.dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestEnvironmentIsByAllowList(t *testing.T) {
	b := newBench(t)
	for name, value := range map[string]string{
		"HOME": "/home/u", "LC_ALL": "C", "XDG_CONFIG_HOME": "/cfg", "TOOL_TOKEN": "t", "TOOLBOX": "no",
		"LD_PRELOAD": "/tmp/x.so", "GIT_DIR": "/tmp/x", "BASH_ENV": "/tmp/x", "AWS_SECRET_ACCESS_KEY": "k", "AGENTBOX_PROMPT": "off", "NODE_OPTIONS": "-r x",
	} {
		t.Setenv(name, value)
	}
	env := b.environment(Command{Inherit: []string{"TOOL_*"}, Env: []string{"HOME=/other", "NO_COLOR=1"}}, "/d", nil)
	for _, want := range []string{"LC_ALL=C", "XDG_CONFIG_HOME=/cfg", "TOOL_TOKEN=t", "NO_COLOR=1", "PATH=" + b.bin + ":/usr/bin:/bin"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	if last := slices.Index(env, "HOME=/other"); last < slices.Index(env, "HOME=/home/u") {
		t.Error("what the command sets does not win")
	}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains([]string{"TOOLBOX", "LD_PRELOAD", "GIT_DIR", "BASH_ENV", "AWS_SECRET_ACCESS_KEY", "AGENTBOX_PROMPT", "NODE_OPTIONS"}, name) {
			t.Errorf("%s was passed on", name)
		}
	}
}

// A box can bring files into its project; a program from there would be its own.
func TestNoProgramComesFromAProject(t *testing.T) {
	const theirs = "agentbox-test-tool" // which no machine has
	for name, box := range map[string]func(dir string) core.Box{
		"project":    func(dir string) core.Box { return core.Box{ProjectRoot: dir} },
		"repository": func(dir string) core.Box { return core.Box{Repos: []core.Repo{{WorkTree: dir}}} },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.install(t, theirs, `echo theirs`)
			b.boxes = []core.Box{box(filepath.Dir(b.bin))}
			if p, err := b.Find(t.Context(), theirs); !errors.Is(err, ErrNotFound) {
				t.Errorf("Find = %v, %v", p, err)
			}
			if env := b.environment(Command{}, "/d", []string{realPath(t, b.bin)}); !slices.Contains(env, "PATH=/usr/bin:/bin") {
				t.Errorf("the project's folder stays in %q", env)
			}
		})
	}
	t.Run("link", func(t *testing.T) {
		b := newBench(t)
		project := t.TempDir()
		b.boxes = []core.Box{{ProjectRoot: project}}
		if err := os.WriteFile(filepath.Join(project, theirs), []byte("#!/bin/sh\n"), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(project, theirs), filepath.Join(b.bin, theirs)); err != nil {
			t.Fatal(err)
		}
		if p, err := b.Find(t.Context(), theirs); !errors.Is(err, ErrNotFound) {
			t.Errorf("Find = %v, %v", p, err)
		}
	})
}

func realPath(t *testing.T, path string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

func TestFindTakesNamesAlone(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"", ".", "/", "/bin/sh", "../sh", "a/b"} {
		if p, err := b.Find(t.Context(), name); err == nil {
			t.Errorf("Find(%q) = %q", name, p.Path())
		}
	}
	if _, err := b.Find(t.Context(), "no-such-program"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	sh, err := b.Find(t.Context(), "sh")
	if err != nil || sh.Path() != "/usr/bin/sh" && sh.Path() != "/bin/sh" {
		t.Errorf("Find(sh) = %q, %v", sh.Path(), err)
	}
	if r := b.Run(t.Context(), Command{}); r.ExitCode != wire.ExitNotFound {
		t.Errorf("no program ended with %d", r.ExitCode)
	}
}

// The first that was found stays, so that a later folder of PATH takes nothing over.
func TestFindKeepsWhatItFound(t *testing.T) {
	b := newBench(t)
	sh, err := b.Find(t.Context(), "sh")
	if err != nil {
		t.Fatal(err)
	}
	if now := b.install(t, "sh", "echo other"); now != sh {
		t.Errorf("sh became %q", now.Path())
	}
}

func TestNothingRunsBeforeItIsWrittenDown(t *testing.T) {
	b := newBench(t)
	mark := filepath.Join(t.TempDir(), "mark")
	tool := b.install(t, "tool", `echo $$ >"$1"; exec cat "$1"`)
	absent := func(int) error {
		if _, err := os.Stat(mark); err == nil {
			return errors.New("it ran already")
		}
		return nil
	}
	var pid int
	r := b.Run(t.Context(), Command{Program: tool, Args: []string{mark}, Started: func(p int) error { pid = p; return absent(p) }})
	if !r.OK() || strings.TrimSpace(string(r.Stdout)) != strconv.Itoa(pid) {
		t.Errorf("code %d, pid %d, stdout %q, stderr %q", r.ExitCode, pid, r.Stdout, r.Stderr)
	}
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	r = b.Run(t.Context(), Command{Program: tool, Args: []string{mark}, Started: func(int) error { return io.ErrClosedPipe }})
	if r.ExitCode != wire.ExitFailed || absent(0) != nil {
		t.Errorf("code %d, stderr %q; it ran: %v", r.ExitCode, r.Stderr, absent(0))
	}
}

// stubborn is a program with a child of its own, neither of which heeds
// SIGTERM. It says a word on its standard output once it is there.
const stubborn = `trap '' TERM
sh -c 'trap "" TERM; echo here; while :; do sleep 1000 & wait; done' &
wait`

func TestProgramsAreEndedWithAllOfTheirOwn(t *testing.T) {
	b := newBench(t)
	b.grace = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	fifo := filepath.Join(t.TempDir(), "ready")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() {
		defer cancel()
		f, err := os.Open(fifo)
		if err != nil {
			gone <- err
			return
		}
		defer f.Close() //nolint:errcheck // only read
		if _, err = f.Read(make([]byte, 32)); err == nil {
			cancel()
			_, err = io.Copy(io.Discard, f) // to the end of all that hold it
		}
		gone <- err
	}()
	r := b.Run(ctx, Command{Program: b.install(t, "tool", "exec >"+fifo+"\n"+stubborn), Timeout: time.Hour})
	if r.ExitCode != 143 {
		t.Errorf("code %d, stderr %q", r.ExitCode, r.Stderr)
	}
	if err := <-gone; err != nil {
		t.Error(err)
	}
}

func TestProgramsHaveADeadline(t *testing.T) {
	b := newBench(t)
	r := b.Run(t.Context(), Command{Program: b.install(t, "tool", "exec sleep 1000"), Timeout: 50 * time.Millisecond})
	if r.ExitCode != wire.ExitTimeout || !strings.Contains(string(r.Stderr), "ended after 50ms") {
		t.Errorf("code %d, stderr %q", r.ExitCode, r.Stderr)
	}
}

func TestNewRemovesWhatAnEarlierOneLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "calls")
	if err := os.MkdirAll(filepath.Join(dir, "call-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := New(dir, nil); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
