package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"agentbox": func() { os.Exit(run(os.Args)) },
	})
}

// TestScripts runs the whole command, without an engine.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("AGENTBOX_HOME", e.WorkDir+"/h") // short: sockets lie below it
			e.Setenv("HOME", e.WorkDir+"/user")
			e.Setenv("DOCKER_HOST", "unix://"+e.WorkDir+"/no-engine.sock")
			e.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
			e.Setenv("GIT_AUTHOR_NAME", "U")
			e.Setenv("GIT_AUTHOR_EMAIL", "u@example.test")
			e.Setenv("GIT_COMMITTER_NAME", "U")
			e.Setenv("GIT_COMMITTER_EMAIL", "u@example.test")
			return os.MkdirAll(e.WorkDir+"/user", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a command that must end with the given code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("%v ended with %d, want %d", args[1:], code, want)
	}
}
