package gitgate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/madarco/agentbox/core"
)

// setRefs gives refs of a repository of ours new values, whatever they are at.
// It writes them as git's files backend does (gitrepository-layout(5)), under
// the lock that git itself takes, because a process for it would be what takes
// longest. What does not work this way is left to git: another form of storage,
// a name in another's way, a lock that is held.
func (h *Host) setRefs(ctx context.Context, dir, format string, changes []change) error {
	for i, c := range changes {
		if c.new == "" || !setRef(dir, c.ref, c.new) {
			rest := changes[i:]
			for n := range rest {
				rest[n].old = anyValue
			}
			return h.moveRefs(ctx, h.ours(dir), format, rest)
		}
	}
	return nil
}

// setRef tells whether the ref has its new value. A ref that was packed is
// covered by the loose one.
func setRef(dir, name string, id core.ObjectID) bool {
	if _, err := os.Lstat(filepath.Join(dir, "reftable")); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	packed, err := os.ReadFile(filepath.Join(dir, "packed-refs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || inTheWay(string(packed), name) {
		return false
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as git makes it
		return false
	}
	lock, err := os.OpenFile(path+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // as git makes it
	if err != nil {
		return false
	}
	_, err = lock.WriteString(string(id) + "\n")
	if err = errors.Join(err, lock.Sync(), lock.Close()); err == nil {
		err = os.Rename(lock.Name(), path) // fails where a folder of refs is
	}
	if err != nil {
		_ = os.Remove(lock.Name()) // git says what is wrong
	}
	return err == nil
}

// inTheWay tells whether a packed ref has a name above or below the given one.
func inTheWay(packed, name string) bool {
	for line := range strings.Lines(packed) {
		_, other, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if ok && (strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/")) {
			return true
		}
	}
	return false
}
