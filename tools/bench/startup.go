package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
)

// startup compares the programs with one that does nothing.
func startup(ctx context.Context, o options) ([]row, error) {
	home, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	program := func(argv ...string) action {
		return timed(func(ctx context.Context) error {
			cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
			cmd.Dir = home
			cmd.Env = append(os.Environ(), "AGENTBOX_HOME="+home)
			return cmd.Run()
		})
	}
	agentbox, ctl := filepath.Join(o.bin, "agentbox"), filepath.Join(o.bin, "agentbox-ctl")
	times, err := interleave(ctx, 10*o.rounds,
		program("/bin/true"),
		program(agentbox, "--version"),
		program(agentbox, "list", "--json"),
		program(ctl, "--version"),
	)
	if err != nil {
		return nil, err
	}
	return []row{
		ratio("agentbox --version", times[1], "/bin/true", times[0], "≤ 7 ×"),
		ratio("agentbox list --json", times[2], "/bin/true", times[0], "≤ 15 ×"),
		ratio("agentbox-ctl --version", times[3], "/bin/true", times[0], "≤ 5 ×"),
	}, nil
}
