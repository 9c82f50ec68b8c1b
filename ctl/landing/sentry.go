package landing

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"

	"github.com/madarco/agentbox/core"
)

// sentry reports that refs may have moved. It watches the folders on the way
// to the branches, not every folder of refs: a box may have thousands.
type sentry struct {
	watcher *fsnotify.Watcher
	gitDir  string
	dirs    []string
	hints   chan struct{}
	done    chan struct{}
}

func newSentry(gitDir string, branches []core.BranchName) (*sentry, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch the repository's refs: %w", err)
	}
	s := &sentry{
		watcher: watcher, gitDir: gitDir, dirs: watchedDirs(gitDir, branches),
		hints: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go s.run()
	return s, nil
}

// watchedDirs lists the folders in which a change can move one of the branches,
// outermost first.
func watchedDirs(gitDir string, branches []core.BranchName) []string {
	heads := filepath.Join(gitDir, "refs", "heads")
	dirs := []string{gitDir, filepath.Join(gitDir, "refs"), heads}
	seen := map[string]bool{}
	for _, b := range branches {
		parts := strings.Split(string(b), "/")
		for i := 1; i < len(parts); i++ {
			dir := filepath.Join(append([]string{heads}, parts[:i]...)...)
			if !seen[dir] {
				seen[dir] = true
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// arm watches the folders that exist now. It is called before each look at the
// refs, so that a folder made since the last one is watched before it is read.
func (s *sentry) arm() error {
	var all error
	for _, dir := range s.dirs {
		if err := s.watcher.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, fmt.Errorf("watch %s: %w", dir, err))
		}
	}
	return all
}

func (s *sentry) run() {
	defer close(s.done)
	for {
		select {
		case event, open := <-s.watcher.Events:
			if !open {
				return
			}
			if s.matters(event.Name) {
				s.hint()
			}
		case _, open := <-s.watcher.Errors:
			if !open {
				return
			}
			s.hint() // events may have been lost
		}
	}
}

func (s *sentry) hint() {
	select {
	case s.hints <- struct{}{}:
	default: // one hint is as good as two
	}
}

// matters drops the lock files that each update makes and removes, and what
// git does beside the refs.
func (s *sentry) matters(path string) bool {
	if strings.HasSuffix(path, ".lock") {
		return false
	}
	if filepath.Dir(path) != s.gitDir {
		return true
	}
	switch filepath.Base(path) {
	case "HEAD", "packed-refs", "refs":
		return true
	}
	return false
}

func (s *sentry) close() {
	_ = s.watcher.Close() // nothing is left to do about it
	<-s.done
}
