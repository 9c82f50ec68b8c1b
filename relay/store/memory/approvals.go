package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// OpenApproval implements store.ApprovalStore.
func (s *Store) OpenApproval(ctx context.Context, ask store.Ask) (a store.Approval, opened bool, err error) {
	err = s.write(ctx, func(now time.Time) (err error) {
		if i := s.live(ask.BoxID, ask.Digest); i >= 0 {
			if store.Live(s.approvals[i].At(now).State) {
				a, err = clone(s.approvals[i])
				return err
			}
			if err := s.settle(i, s.approvals[i].At(now), now); err != nil {
				return err
			}
		}
		fresh, err := store.NewApproval(ask, now)
		if err != nil {
			return err
		}
		if pending := s.pending(ask.BoxID, now); ask.Limit > 0 && pending >= ask.Limit {
			return fmt.Errorf("%d questions are pending: %w", pending, store.ErrTooMany)
		}
		if a, err = clone(fresh); err != nil {
			return err
		}
		if _, err := s.seal(fresh.Entry(), now); err != nil {
			return err
		}
		s.approvals = append(s.approvals, fresh)
		opened = true
		s.topics.Wake(store.PendingTopic)
		return nil
	})
	if err != nil {
		return store.Approval{}, false, fmt.Errorf("ask for box %s: %w", ask.BoxID, err)
	}
	return a, opened, nil
}

// live is the index of the box's approval of this digest, -1 if there is none.
func (s *Store) live(boxID, digest string) int {
	return slices.IndexFunc(s.approvals, func(a store.Approval) bool {
		return a.BoxID == boxID && a.Digest == digest && store.Live(a.State)
	})
}

func (s *Store) pending(boxID string, now time.Time) int {
	n := 0
	for _, a := range s.approvals {
		if (boxID == "" || a.BoxID == boxID) && a.At(now).State == wire.Pending {
			n++
		}
	}
	return n
}

// move replaces the approval at index i.
func (s *Store) move(i int, a store.Approval) {
	s.approvals[i] = a
	s.topics.Wake(store.ApprovalTopic(a.ID), store.PendingTopic)
}

// settle is move with the audit entry that belongs to it.
func (s *Store) settle(i int, a store.Approval, now time.Time) error {
	if _, err := s.seal(a.Entry(), now); err != nil {
		return err
	}
	s.move(i, a)
	return nil
}

// find is the index of an approval.
func (s *Store) find(id string) (int, error) {
	i := slices.IndexFunc(s.approvals, func(a store.Approval) bool { return a.ID == id })
	if i < 0 {
		return i, fmt.Errorf("approval %q: %w", id, store.ErrNotFound)
	}
	return i, nil
}

// change decides on an approval and keeps what was decided.
func (s *Store) change(ctx context.Context, id string, decide func(store.Approval, time.Time) (store.Approval, error)) (store.Approval, error) {
	var changed store.Approval
	err := s.write(ctx, func(now time.Time) error {
		i, err := s.find(id)
		if err != nil {
			return err
		}
		a, err := decide(s.approvals[i], now)
		if err != nil {
			return err
		}
		if changed, err = clone(a); err != nil {
			return err
		}
		return s.settle(i, a, now)
	})
	if err != nil {
		return store.Approval{}, err
	}
	return changed, nil
}

// AnswerApproval implements store.ApprovalStore.
func (s *Store) AnswerApproval(ctx context.Context, id string, r store.Reply) (store.Approval, error) {
	return s.change(ctx, id, func(a store.Approval, now time.Time) (store.Approval, error) { return a.Answered(r, now) })
}

// CancelApproval implements store.ApprovalStore.
func (s *Store) CancelApproval(ctx context.Context, id, by, note string) (store.Approval, error) {
	return s.change(ctx, id, func(a store.Approval, now time.Time) (store.Approval, error) { return a.Cancel(by, note, now) })
}

// Approval implements store.ApprovalStore.
func (s *Store) Approval(ctx context.Context, id string) (a store.Approval, err error) {
	err = s.read(ctx, func(now time.Time) error {
		i, err := s.find(id)
		if err != nil {
			return err
		}
		a, err = clone(s.approvals[i].At(now))
		return err
	})
	return a, err
}

// Approvals implements store.ApprovalStore.
func (s *Store) Approvals(ctx context.Context, boxID string, states ...wire.ApprovalState) (found []store.Approval, err error) {
	err = s.read(ctx, func(now time.Time) (err error) {
		for _, a := range s.approvals {
			a = a.At(now)
			if (boxID == "" || a.BoxID == boxID) && (len(states) == 0 || slices.Contains(states, a.State)) {
				found = append(found, a)
			}
		}
		found, err = cloneAll(found)
		return err
	})
	return found, err
}

// PendingApprovals implements store.ApprovalStore.
func (s *Store) PendingApprovals(ctx context.Context, boxID string) (n int, err error) {
	err = s.read(ctx, func(now time.Time) error {
		n = s.pending(boxID, now)
		return nil
	})
	return n, err
}

// ExpireApprovals implements store.ApprovalStore.
func (s *Store) ExpireApprovals(ctx context.Context) (expired []store.Approval, err error) {
	err = s.write(ctx, func(now time.Time) (err error) {
		for i, a := range s.approvals {
			late := a.At(now)
			if late.State == a.State {
				continue
			}
			if err := s.settle(i, late, now); err != nil {
				return err
			}
			expired = append(expired, late)
		}
		expired, err = cloneAll(expired)
		return err
	})
	return expired, err
}
