package proc

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
)

func TestStartRaisesTheOOMScoreAndPassesNoEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_THE_DAEMON", "x")
	cmd := Command(t.Context(), []string{"ONLY=this"}, "/bin/sh", "-c", `read go; cat /proc/self/oom_score_adj; env`)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout = &out
	if err := Start(cmd); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(stdin, "go\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	score, env, _ := strings.Cut(out.String(), "\n")
	if score != "600" {
		t.Errorf("oom_score_adj = %s, want 600", score)
	}
	if strings.Contains(env, "SECRET_OF_THE_DAEMON") || !strings.Contains(env, "ONLY=this") {
		t.Errorf("environment = %q", env)
	}
}

func TestCancelKillsTheWholeGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cmd := Command(ctx, nil, "/bin/sh", "-c", `sleep 1000 & echo up; wait`)
	cmd.WaitDelay = 0 // Wait then ends only when nobody holds the pipe any more
	pipe, w := io.Pipe()
	cmd.Stdout = w
	if err := Start(cmd); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(pipe).ReadString('\n'); line != "up\n" {
		t.Fatalf("first line %q, %v", line, err)
	}
	cancel()
	if err := cmd.Wait(); err == nil {
		t.Error("a killed program ended well")
	}
}
