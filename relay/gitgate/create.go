package gitgate

import (
	"errors"
	"os"
	"path/filepath"
)

// makeRepository makes a bare repository of ours that appears whole, or not. It
// writes what `git init` writes (gitrepository-layout(5)), the files backend
// whatever git's default is: a process for it would take longer than all else
// in the making of a gate.
func makeRepository(dir, format string, fill func(temp string) error) (err error) {
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(parent, filepath.Base(dir)+".new-*") // mode 0700
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	for _, folder := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(temp, folder), 0o755); err != nil { //nolint:gosec // as git makes it
			return err
		}
	}
	config := "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"
	if format != "sha1" {
		config = "[core]\n\trepositoryformatversion = 1\n\tfilemode = true\n\tbare = true\n[extensions]\n\tobjectformat = " + format + "\n"
	}
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/main\n", "config": config} {
		if err := os.WriteFile(filepath.Join(temp, name), []byte(text), 0o644); err != nil { //nolint:gosec // as git makes it
			return err
		}
	}
	if err := fill(temp); err != nil {
		return err
	}
	return os.Rename(temp, dir)
}
