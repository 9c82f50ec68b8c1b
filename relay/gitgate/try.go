package gitgate

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// Try does with git, in a folder of its own in the state folder, what every box
// needs of it: make a repository and a commit in it, pack it and check it.
func (h *Host) Try(ctx context.Context) error {
	dir, err := os.MkdirTemp(string(h.home), "doctor.")
	if err != nil {
		return fmt.Errorf("try git: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := h.try(ctx, dir); err != nil {
		return fmt.Errorf("try git in %s: %w", dir, err)
	}
	return nil
}

func (h *Host) try(ctx context.Context, dir string) error {
	if _, err := h.run.run(ctx, h.ours("", "init", "-q", "--bare", "--template=", "--object-format=sha1", dir)); err != nil {
		return err
	}
	step := func(stdin string, args ...string) (string, error) {
		cmd := h.ours(dir, args...)
		cmd.stdin = strings.NewReader(stdin)
		cmd.env = append(append([]string(nil), cmd.env...), "GIT_AUTHOR_NAME=agentbox", "GIT_AUTHOR_EMAIL=", "GIT_COMMITTER_NAME=agentbox", "GIT_COMMITTER_EMAIL=")
		return h.run.line(ctx, cmd)
	}
	tree, err := step("", "mktree")
	if err != nil {
		return err
	}
	commit, err := step("", "commit-tree", "-m", "try", tree)
	if err != nil {
		return err
	}
	if _, err := step(commit+"\n", "pack-objects", "--revs", "-q", dir+"/objects/pack/pack"); err != nil {
		return err
	}
	if _, err := step("create refs/heads/try "+commit+"\n", "update-ref", "--stdin"); err != nil {
		return err
	}
	_, err = step("", "fsck", "--strict", "--no-progress")
	return err
}
