package server

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/atomicfile"
)

// ciConsents are the user's yeses to CI that runs on pushes of boxes' own
// branches: for each repository the digest of the files that they were shown. The
// file is the user's to delete, which takes all of them back at once.
type ciConsents struct {
	mu   sync.Mutex
	path string
}

// holds tells whether the user has agreed to exactly these files. What can't be
// read is no yes.
func (c *ciConsents) holds(key, digest string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err := c.read()
	return digest != "" && all[key] == digest, err
}

// add keeps a yes, in place of an earlier one to other files of the repository.
func (c *ciConsents) add(key, digest string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err := c.read()
	if err != nil || all == nil {
		all = map[string]string{} // what can't be read was no yes; it is asked for again
	}
	all[key] = digest
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(c.path, append(text, '\n'), 0o600)
}

func (c *ciConsents) read() (all map[string]string, err error) {
	text, err := os.ReadFile(c.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(text, &all)
}

// agreeToCI keeps the yes that came with a push. The push was agreed to either
// way; a yes that is lost is asked for again.
func (s *Server) agreeToCI(box core.Box, r pushRequest) {
	if r.CI == "" {
		return
	}
	if err := s.ci.add(r.Repo, r.CI); err != nil {
		s.log.Error("keep the user's yes to CI", "box", box.ID, "err", err)
	}
}
