package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// world is a user with a project, a remote and a home of their own.
type world struct {
	bin     string
	dir     string
	home    string
	project string
	remote  *exec.Cmd
}

// filesInProject is the size of project that the budget of a create names.
const filesInProject = 5000

func newWorld(ctx context.Context, o options) (*world, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	const config = "push:\n  maxPack: 4GB\nlanding:\n  budget: 100GB\n"
	if err := os.Mkdir(filepath.Join(dir, "home"), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "home", "config.yaml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	w := &world{bin: o.bin, dir: dir, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project")}
	url, err := w.serve(o.gitremote)
	if err == nil {
		err = w.fill(ctx, url)
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// serve starts the remote and returns its address.
func (w *world) serve(program string) (string, error) {
	password := filepath.Join(w.dir, "password")
	if err := os.WriteFile(password, []byte("bench"), 0o600); err != nil {
		return "", err
	}
	w.remote = exec.Command(program, "-root", filepath.Join(w.dir, "remote"), "-create", "project.git",
		"-password-file", password, "-log", filepath.Join(w.dir, "remote.log"))
	w.remote.Stderr = os.Stderr
	ready, err := w.remote.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := w.remote.Start(); err != nil {
		return "", err
	}
	var line [256]byte
	n, err := ready.Read(line[:])
	if err != nil {
		return "", fmt.Errorf("start the remote: %w", err)
	}
	return strings.TrimSpace(string(line[:n])), nil
}

func (w *world) fill(ctx context.Context, url string) error {
	for i := range filesInProject {
		file := filepath.Join(w.project, fmt.Sprintf("d%02d", i%100), fmt.Sprintf("f%d.txt", i))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, fmt.Appendf(nil, "file %d\n", i), 0o644); err != nil {
			return err
		}
	}
	store := filepath.Join(w.dir, "credentials")
	scheme, host, _ := strings.Cut(url, "://")
	if err := os.WriteFile(store, []byte(scheme+"://git:bench@"+host+"\n"), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"config", "user.name", "bench"},
		{"config", "user.email", "bench@example.org"},
		{"config", "credential.helper", "store --file=" + store},
		{"remote", "add", "origin", url + "/project.git"},
		{"add", "--all"},
		{"commit", "--quiet", "--message=project"},
		{"push", "--quiet", "--set-upstream", "origin", "main"},
	} {
		if _, err := w.git(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// close removes everything; the folder is kept when something else is left.
func (w *world) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	if _, statErr := os.Stat(w.home); !errors.Is(statErr, fs.ErrNotExist) {
		err = w.leave(ctx)
	}
	if w.remote != nil && w.remote.Process != nil {
		_ = w.remote.Process.Signal(os.Interrupt)
		_ = w.remote.Wait() // it was told to end
	}
	if err != nil {
		return fmt.Errorf("clean up (AGENTBOX_HOME=%s): %w", w.home, err)
	}
	return os.RemoveAll(w.dir)
}

func (w *world) leave(ctx context.Context) error {
	all, err := w.list(ctx)
	if err != nil {
		return err
	}
	for _, b := range all {
		if err := w.destroy(ctx, b.Name); err != nil {
			return err
		}
	}
	_, err = w.agentbox(ctx, "relay", "stop")
	return err
}

// box is what agentbox tells of a box.
type box struct {
	Name, Branch, Container, Image string
}

func (w *world) list(ctx context.Context) ([]box, error) {
	out, err := w.agentbox(ctx, "list", "--all", "--json")
	if err != nil {
		return nil, err
	}
	var all []box
	return all, json.Unmarshal([]byte(out), &all)
}

func (w *world) create(ctx context.Context) (box, error) {
	out, err := w.agentbox(ctx, "create", "--image", "lean", "--json")
	if err != nil {
		return box{}, err
	}
	var b box
	return b, json.Unmarshal([]byte(out), &b)
}

func (w *world) destroy(ctx context.Context, name string) error {
	_, err := w.agentbox(ctx, "destroy", "--yes", name)
	return err
}

func (w *world) agentbox(ctx context.Context, args ...string) (string, error) {
	return w.run(exec.CommandContext(ctx, filepath.Join(w.bin, "agentbox"), args...))
}

func (w *world) git(ctx context.Context, args ...string) (string, error) {
	return w.run(exec.CommandContext(ctx, "git", args...))
}

func (w *world) docker(ctx context.Context, args ...string) (string, error) {
	return w.run(exec.CommandContext(ctx, "docker", args...))
}

// run runs a command as the user, in the project.
func (w *world) run(cmd *exec.Cmd) (string, error) {
	cmd.Dir = w.project
	cmd.Env = append(os.Environ(), "AGENTBOX_HOME="+w.home, "GIT_TERMINAL_PROMPT=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%q: %w\n%s", cmd.Args, err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

func (w *world) shell(ctx context.Context, line string) (string, error) {
	return w.run(exec.CommandContext(ctx, "sh", "-c", line))
}
