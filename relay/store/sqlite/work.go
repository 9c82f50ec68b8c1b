package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// Begin implements store.WorkStore.
func (s *Store) Begin(ctx context.Context, in store.Intent) (store.Intent, error) {
	var begun store.Intent
	err := s.write(ctx, func(t *tx) (err error) {
		if begun, err = store.NewIntent(in, t.now); err != nil {
			return err
		}
		if err := t.checkRequest(begun); err != nil {
			return err
		}
		if err := t.useApproval(begun); err != nil {
			return err
		}
		body, err := toBody(begun)
		if err != nil {
			return err
		}
		n, err := t.exec(`INSERT INTO intents (id, box_id, digest, body) VALUES (?, ?, ?, ?) ON CONFLICT (box_id, digest) DO NOTHING`,
			begun.ID, begun.BoxID, begun.Digest, body)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("the same request runs now: %w", store.ErrExists)
		}
		_, err = t.appendAudit(begun.BeginEntry())
		return err
	})
	if err != nil {
		return store.Intent{}, fmt.Errorf("begin %s for box %s: %w", in.Method, in.BoxID, err)
	}
	return begun, nil
}

// checkRequest refuses a request id that has a result, and a box that has no
// room for another.
func (t *tx) checkRequest(in store.Intent) error {
	if in.RequestID == "" {
		return nil
	}
	_, err := freshResult(context.Background(), t.sql, in.BoxID, in.RequestID, in.Digest, t.now)
	switch {
	case err == nil:
		return fmt.Errorf("request %q has a result: %w", in.RequestID, store.ErrExists)
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	return t.checkBudget(in.BoxID)
}

func (t *tx) checkBudget(boxID string) error {
	kept, err := find(t, scalar[int64],
		`SELECT coalesce(sum(octet_length(body)), 0) FROM results WHERE box_id = ? AND at > ?`, boxID, t.now.Add(-store.ResultTTL).UnixMilli())
	if err == nil && kept >= store.ResultBudget {
		err = fmt.Errorf("%d bytes of results are kept: %w", kept, store.ErrTooMany)
	}
	return err
}

// useApproval takes the approval that the intent names from approved to executing.
func (t *tx) useApproval(in store.Intent) error {
	if in.ApprovalID == "" {
		return nil
	}
	a, err := find(t, fromBody[store.Approval], approvalByID, in.ApprovalID)
	if err != nil {
		return fmt.Errorf("approval %q: %w", in.ApprovalID, err)
	}
	used, err := a.Begun(in, t.now)
	if err != nil {
		return err
	}
	return t.move(a.State, used)
}

const intentByID = `SELECT body FROM intents WHERE id = ?`

// SetChild implements store.WorkStore.
func (s *Store) SetChild(ctx context.Context, id string, child store.Child) error {
	err := s.write(ctx, func(t *tx) error {
		in, err := find(t, fromBody[store.Intent], intentByID, id)
		if err != nil {
			return err
		}
		in.Child = child
		body, err := toBody(in)
		if err != nil {
			return err
		}
		_, err = t.exec(`UPDATE intents SET body = ? WHERE id = ?`, body, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("record the process of work %q: %w", id, err)
	}
	return nil
}

// End implements store.WorkStore.
func (s *Store) End(ctx context.Context, id string, out store.Outcome) error {
	out = out.Fit()
	err := s.write(ctx, func(t *tx) error {
		in, err := find(t, fromBody[store.Intent], intentByID, id)
		if err != nil {
			return err
		}
		if _, err := t.exec(`DELETE FROM intents WHERE id = ?`, id); err != nil {
			return err
		}
		if in.RequestID != "" {
			if err := t.keepResult(in.BoxID, in.RequestID, in.Digest, out.Envelope); err != nil {
				return err
			}
		}
		if err := t.endApproval(in.ApprovalID, out); err != nil {
			return err
		}
		_, err = t.appendAudit(in.EndEntry(out))
		return err
	})
	if err != nil {
		return fmt.Errorf("end work %q: %w", id, err)
	}
	return nil
}

func (t *tx) endApproval(id string, out store.Outcome) error {
	if id == "" {
		return nil
	}
	a, err := find(t, fromBody[store.Approval], approvalByID, id)
	if err != nil {
		return fmt.Errorf("approval %q: %w", id, err)
	}
	ended, err := a.Ended(out, t.now)
	if err != nil {
		return err
	}
	return t.move(a.State, ended)
}

// Intents implements store.WorkStore.
func (s *Store) Intents(ctx context.Context) ([]store.Intent, error) {
	all, err := list(ctx, s.reader, fromBody[store.Intent], `SELECT body FROM intents ORDER BY rowid`)
	if err != nil {
		return nil, fmt.Errorf("list the work that has begun: %w", err)
	}
	return all, nil
}

// kept is a row of results.
type kept struct {
	digest string
	env    wire.Envelope
}

func scanKept(rows *sql.Rows) (kept, error) {
	var k kept
	var body []byte
	if err := rows.Scan(&k.digest, &body); err != nil {
		return k, err
	}
	return k, json.Unmarshal(body, &k.env)
}

// freshResult finds the result that still answers a request id.
func freshResult(ctx context.Context, q querier, boxID, requestID, digest string, now time.Time) (wire.Envelope, error) {
	k, err := one(ctx, q, scanKept, `SELECT digest, body FROM results WHERE box_id = ? AND request_id = ? AND at > ?`,
		boxID, requestID, now.Add(-store.ResultTTL).UnixMilli())
	if err == nil && k.digest != digest {
		err = store.ErrConflict
	}
	if err != nil {
		return wire.Envelope{}, fmt.Errorf("result of request %q: %w", requestID, err)
	}
	return k.env, nil
}

func (t *tx) keepResult(boxID, requestID, digest string, env wire.Envelope) error {
	body, err := toBody(env)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT OR REPLACE INTO results (box_id, request_id, digest, at, body) VALUES (?, ?, ?, ?, ?)`,
		boxID, requestID, digest, t.now.UnixMilli(), body)
	return err
}

// Result implements store.WorkStore.
func (s *Store) Result(ctx context.Context, boxID, requestID, digest string) (wire.Envelope, error) {
	return freshResult(ctx, s.reader, boxID, requestID, digest, s.clock())
}

// SaveResult implements store.WorkStore.
func (s *Store) SaveResult(ctx context.Context, boxID, requestID, digest string, env wire.Envelope) error {
	env = store.Outcome{Envelope: env}.Fit().Envelope
	err := s.write(ctx, func(t *tx) error {
		_, err := freshResult(context.Background(), t.sql, boxID, requestID, digest, t.now)
		if err == nil || !errors.Is(err, store.ErrNotFound) {
			return err // the first one stays
		}
		if err := t.checkBudget(boxID); err != nil {
			return err
		}
		return t.keepResult(boxID, requestID, digest, env)
	})
	if err != nil {
		return fmt.Errorf("keep a result for box %s: %w", boxID, err)
	}
	return nil
}
