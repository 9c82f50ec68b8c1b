package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// OpenApproval implements store.ApprovalStore.
func (s *Store) OpenApproval(ctx context.Context, ask store.Ask) (store.Approval, bool, error) {
	var a store.Approval
	var opened bool
	err := s.write(ctx, func(t *tx) error {
		live, err := find(t, fromBody[store.Approval],
			`SELECT body FROM approvals WHERE box_id = ? AND digest = ? AND state IN ('pending', 'approved', 'executing')`, ask.BoxID, ask.Digest)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return err
		case store.Live(live.At(t.now).State):
			a = live
			return nil
		default:
			if err := t.settle(live.State, live.At(t.now)); err != nil {
				return err
			}
		}
		opened = true
		a, err = t.insertApproval(ask)
		return err
	})
	if err != nil {
		return store.Approval{}, false, fmt.Errorf("ask for box %s: %w", ask.BoxID, err)
	}
	return a, opened, nil
}

func (t *tx) insertApproval(ask store.Ask) (store.Approval, error) {
	a, err := store.NewApproval(ask, t.now)
	if err != nil {
		return a, err
	}
	pending, err := find(t, scalar[int], countPending, ask.BoxID, t.now.UnixMilli())
	if err != nil {
		return a, err
	}
	if ask.Limit > 0 && pending >= ask.Limit {
		return a, fmt.Errorf("%d questions are pending: %w", pending, store.ErrTooMany)
	}
	body, err := toBody(a)
	if err != nil {
		return a, err
	}
	if _, err := t.exec(`INSERT INTO approvals (id, box_id, digest, state, deadline, updated_at, body) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		a.ID, a.BoxID, a.Digest, a.State, a.Deadline.UnixMilli(), a.UpdatedAt.UnixMilli(), body); err != nil {
		return a, err
	}
	t.wake(store.PendingTopic)
	_, err = t.appendAudit(a.Entry())
	return a, err
}

// move writes an approval that was in state from.
func (t *tx) move(from wire.ApprovalState, a store.Approval) error {
	body, err := toBody(a)
	if err != nil {
		return err
	}
	n, err := t.exec(`UPDATE approvals SET state = ?, updated_at = ?, body = ? WHERE id = ? AND state = ?`,
		a.State, a.UpdatedAt.UnixMilli(), body, a.ID, from)
	if err != nil {
		return err
	}
	if n == 0 {
		return store.ErrSettled
	}
	t.wake(store.ApprovalTopic(a.ID), store.PendingTopic)
	return nil
}

// settle is move with the audit entry that belongs to it.
func (t *tx) settle(from wire.ApprovalState, a store.Approval) error {
	if err := t.move(from, a); err != nil {
		return err
	}
	_, err := t.appendAudit(a.Entry())
	return err
}

const approvalByID = `SELECT body FROM approvals WHERE id = ?`

// change reads an approval, decides, and writes what was decided.
func (s *Store) change(ctx context.Context, id string, decide func(*tx, store.Approval) (store.Approval, error)) (store.Approval, error) {
	var changed store.Approval
	err := s.write(ctx, func(t *tx) error {
		a, err := find(t, fromBody[store.Approval], approvalByID, id)
		if err != nil {
			return fmt.Errorf("approval %q: %w", id, err)
		}
		if changed, err = decide(t, a); err != nil {
			return err
		}
		return t.settle(a.State, changed)
	})
	if err != nil {
		return store.Approval{}, err
	}
	return changed, nil
}

// AnswerApproval implements store.ApprovalStore.
func (s *Store) AnswerApproval(ctx context.Context, id string, r store.Reply) (store.Approval, error) {
	return s.change(ctx, id, func(t *tx, a store.Approval) (store.Approval, error) { return a.Answered(r, t.now) })
}

// CancelApproval implements store.ApprovalStore.
func (s *Store) CancelApproval(ctx context.Context, id, by, note string) (store.Approval, error) {
	return s.change(ctx, id, func(t *tx, a store.Approval) (store.Approval, error) { return a.Cancel(by, note, t.now) })
}

// Approval implements store.ApprovalStore.
func (s *Store) Approval(ctx context.Context, id string) (store.Approval, error) {
	a, err := one(ctx, s.reader, fromBody[store.Approval], approvalByID, id)
	if err != nil {
		return a, fmt.Errorf("look up approval %q: %w", id, err)
	}
	return a.At(s.clock()), nil
}

// Approvals implements store.ApprovalStore.
func (s *Store) Approvals(ctx context.Context, boxID string, states ...wire.ApprovalState) ([]store.Approval, error) {
	all, err := list(ctx, s.reader, fromBody[store.Approval], `SELECT body FROM approvals WHERE ?1 IN ('', box_id) ORDER BY rowid`, boxID)
	if err != nil {
		return nil, fmt.Errorf("list approvals: %w", err)
	}
	now := s.clock()
	wanted := all[:0]
	for _, a := range all {
		if a = a.At(now); len(states) == 0 || slices.Contains(states, a.State) {
			wanted = append(wanted, a)
		}
	}
	return wanted, nil
}

const countPending = `SELECT count(*) FROM approvals WHERE ?1 IN ('', box_id) AND state = 'pending' AND deadline > ?2`

// PendingApprovals implements store.ApprovalStore.
func (s *Store) PendingApprovals(ctx context.Context, boxID string) (int, error) {
	n, err := one(ctx, s.reader, scalar[int], countPending, boxID, s.clock().UnixMilli())
	if err != nil {
		return 0, fmt.Errorf("count pending approvals: %w", err)
	}
	return n, nil
}

// ExpireApprovals implements store.ApprovalStore.
func (s *Store) ExpireApprovals(ctx context.Context) ([]store.Approval, error) {
	var expired []store.Approval
	err := s.write(ctx, func(t *tx) error {
		due, err := findAll(t, fromBody[store.Approval],
			`SELECT body FROM approvals WHERE state IN ('pending', 'approved') AND deadline <= ? ORDER BY deadline`, t.now.UnixMilli())
		if err != nil {
			return err
		}
		for _, a := range due {
			expired = append(expired, a.At(t.now))
			if err := t.settle(a.State, a.At(t.now)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("expire approvals: %w", err)
	}
	return expired, nil
}
