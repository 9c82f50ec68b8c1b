package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/ring"
)

const boxColumns = `SELECT body, token, registered_at FROM boxes `

func scanBox(rows *sql.Rows) (store.Registration, error) {
	var r store.Registration
	var body, token []byte
	var at int64
	if err := rows.Scan(&body, &token, &at); err != nil {
		return r, err
	}
	if len(token) != len(r.Token) {
		return r, errors.New("a token hash has the wrong length")
	}
	copy(r.Token[:], token)
	r.RegisteredAt = millis(at)
	return r, json.Unmarshal(body, &r.Box)
}

// RegisterBox implements store.BoxStore.
func (s *Store) RegisterBox(ctx context.Context, box core.Box, token store.TokenHash) (store.Registration, error) {
	var r store.Registration
	if err := ring.CheckID(box.ID); err != nil {
		return r, fmt.Errorf("register a box: %w", err)
	}
	err := s.write(ctx, func(t *tx) error {
		owner, err := find(t, scalar[string], `SELECT id FROM boxes WHERE token = ? AND id <> ?`, token[:], box.ID)
		if err == nil {
			return fmt.Errorf("its token is that of box %s: %w", owner, store.ErrExists)
		}
		body, err := toBody(box)
		if err != nil {
			return err
		}
		if _, err := t.exec(`INSERT INTO boxes (id, token, registered_at, body) VALUES (?1, ?2, ?3, ?4)
			ON CONFLICT (id) DO UPDATE SET token = ?2, registered_at = ?3, body = ?4`, box.ID, token[:], t.now.UnixMilli(), body); err != nil {
			return err
		}
		if _, err := t.exec(`INSERT INTO counters (box_id) VALUES (?) ON CONFLICT DO NOTHING`, box.ID); err != nil {
			return err
		}
		last, err := find(t, scalar[int64], `SELECT events FROM counters WHERE box_id = ?`, box.ID)
		if err != nil {
			return err
		}
		t.then(func() error { return s.events.Admit(box.ID, last) })
		r, err = find(t, scanBox, boxColumns+`WHERE id = ?`, box.ID)
		return err
	})
	if err != nil {
		return store.Registration{}, fmt.Errorf("register box %s: %w", box.ID, err)
	}
	return r, nil
}

// Box implements store.BoxStore.
func (s *Store) Box(ctx context.Context, id string) (store.Registration, error) {
	r, err := one(ctx, s.reader, scanBox, boxColumns+`WHERE id = ?`, id)
	if err != nil {
		return r, fmt.Errorf("look up box %q: %w", id, err)
	}
	return r, nil
}

// BoxByToken implements store.BoxStore.
func (s *Store) BoxByToken(ctx context.Context, token store.TokenHash) (store.Registration, error) {
	r, err := one(ctx, s.reader, scanBox, boxColumns+`WHERE token = ?`, token[:])
	if err != nil {
		return r, fmt.Errorf("look up a box by its token: %w", err)
	}
	return r, nil
}

// Boxes implements store.BoxStore.
func (s *Store) Boxes(ctx context.Context) ([]store.Registration, error) {
	boxes, err := list(ctx, s.reader, scanBox, boxColumns+`ORDER BY registered_at, id`)
	if err != nil {
		return nil, fmt.Errorf("list the registered boxes: %w", err)
	}
	return boxes, nil
}

// ForgetBox implements store.BoxStore.
func (s *Store) ForgetBox(ctx context.Context, id string) (bool, error) {
	var existed bool
	err := s.write(ctx, func(t *tx) error {
		open, err := findAll(t, fromBody[store.Approval],
			`SELECT body FROM approvals WHERE box_id = ? AND state IN ('pending', 'approved') ORDER BY rowid`, id)
		if err != nil {
			return err
		}
		for _, a := range open {
			if err := t.withdraw(a); err != nil {
				return err
			}
		}
		for _, table := range []string{"statuses", "results"} {
			if _, err := t.exec(`DELETE FROM `+table+` WHERE box_id = ?`, id); err != nil {
				return err
			}
		}
		n, err := t.exec(`DELETE FROM boxes WHERE id = ?`, id)
		existed = n > 0
		t.wake(store.StatusTopic(id))
		t.then(func() error { return s.events.Reset(id) })
		return err
	})
	if err != nil {
		return false, fmt.Errorf("forget box %s: %w", id, err)
	}
	return existed, nil
}

// withdraw ends a question or an unused yes whose box goes away.
func (t *tx) withdraw(a store.Approval) error {
	from := a.State
	if a.At(t.now).State == wire.Expired {
		return t.settle(from, a.At(t.now))
	}
	a, err := a.Cancel("relay", "the box was removed", t.now)
	if err != nil {
		return err
	}
	return t.settle(from, a)
}

const statusColumns = `SELECT box_id, snapshot, updated_at FROM statuses `

func scanStatus(rows *sql.Rows) (store.Status, error) {
	var st store.Status
	var at int64
	err := rows.Scan(&st.BoxID, (*[]byte)(&st.Snapshot), &at)
	st.UpdatedAt = millis(at)
	return st, err
}

// SetStatus implements store.BoxStore.
func (s *Store) SetStatus(ctx context.Context, boxID string, snapshot json.RawMessage) error {
	if err := store.CheckStatus(snapshot); err != nil {
		return fmt.Errorf("keep the status of box %q: %w", boxID, err)
	}
	err := s.write(ctx, func(t *tx) error {
		n, err := t.exec(`INSERT INTO statuses (box_id, updated_at, snapshot) SELECT id, ?2, ?3 FROM boxes WHERE id = ?1
			ON CONFLICT (box_id) DO UPDATE SET updated_at = ?2, snapshot = ?3`, boxID, t.now.UnixMilli(), string(snapshot))
		if err == nil && n == 0 {
			err = store.ErrNotFound
		}
		t.wake(store.StatusTopic(boxID))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep the status of box %q: %w", boxID, err)
	}
	return nil
}

// Status implements store.BoxStore.
func (s *Store) Status(ctx context.Context, boxID string) (store.Status, error) {
	st, err := one(ctx, s.reader, scanStatus, statusColumns+`WHERE box_id = ?`, boxID)
	if err != nil {
		return st, fmt.Errorf("read the status of box %q: %w", boxID, err)
	}
	return st, nil
}

// Statuses implements store.BoxStore.
func (s *Store) Statuses(ctx context.Context) ([]store.Status, error) {
	all, err := list(ctx, s.reader, scanStatus, statusColumns+`ORDER BY box_id`)
	if err != nil {
		return nil, fmt.Errorf("list the boxes' statuses: %w", err)
	}
	return all, nil
}
