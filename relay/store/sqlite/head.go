package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/headfile"
)

// openHead holds the audit chain against the file of its head, before anything
// is written: to a database that doesn't hold it, nothing is.
func (s *Store) openHead(ctx context.Context, path string) error {
	file, known, err := headfile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s.beginHead(ctx, path)
	}
	if err == nil {
		s.head = file
		s.unkept, err = store.CheckHead(ctx, s, known)
	}
	if errors.Is(err, store.ErrTampered) || errors.Is(err, headfile.ErrDamaged) {
		return fmt.Errorf("%w; it was left as it is: see what holds with agentbox audit --verify; "+
			"if you have put back an older copy yourself, move %s away and start the relay again, which goes on from what there is and writes that down", err, path)
	}
	if err == nil && s.unkept == known {
		s.unkept = store.Head{}
	}
	if err == nil {
		err = s.keepHead(store.Head{})
	}
	return err
}

// beginHead makes the file. That there was none for a chain that has begun is
// written down in the chain first, so that who takes the file away leaves a
// trace; a crash between the two writes it down twice.
func (s *Store) beginHead(ctx context.Context, path string) error {
	end, err := store.VerifyAudit(ctx, s, store.Head{})
	if errors.Is(err, store.ErrTampered) {
		return fmt.Errorf("%w; it was left as it is: move %s away for a relay that begins a new one", err, s.path)
	}
	if err != nil {
		return err
	}
	if end != (store.Head{}) {
		detail, err := json.Marshal(map[string]string{
			"reason": fmt.Sprintf("no head was kept outside the database, of which entry %d was the last; it is kept from here on", end.Seq),
		})
		if err != nil {
			return fmt.Errorf("write down that the audit log had no head: %w", err)
		}
		j := &job{ctx: ctx, done: make(chan error, 1), do: func(t *tx) error {
			_, err := t.appendAudit(store.Entry{Actor: "relay", Action: "audit.head", Detail: detail})
			return err
		}}
		s.commit([]*job{j})
		if err := <-j.done; err != nil {
			return err
		}
		end, s.unkept = s.unkept, store.Head{}
	}
	if err := headfile.Create(path, end); err != nil {
		return err
	}
	s.head, _, err = headfile.Open(path)
	return err
}

// keepHead writes the head of a commit, and one that could not be written
// before; the zero head stands for a commit without audit entries.
func (s *Store) keepHead(h store.Head) error {
	if h != (store.Head{}) {
		s.unkept = h
	}
	if s.head == nil || s.unkept == (store.Head{}) {
		return nil
	}
	if err := s.head.Put(s.unkept); err != nil {
		return err
	}
	s.unkept = store.Head{}
	return nil
}
