package store

import (
	"context"
	"time"

	"github.com/madarco/agentbox/core/wire"
)

// minNap keeps a waiter whose clock is ahead of the store's from spinning.
const minNap = 20 * time.Millisecond

// WaitApproval returns the approval once its state is another than seen, which
// is at once when it already is. An approval that it finds past its deadline it
// has expired, so that nobody learns of an expiry that is not written down. The
// context's end is the only other way out, and changes nothing.
func WaitApproval(ctx context.Context, s Store, id string, seen wire.ApprovalState) (Approval, error) {
	for {
		changed, stop := s.Watch(ApprovalTopic(id))
		a, err := s.Approval(ctx, id)
		if err == nil && a.State == seen {
			err = untilChange(ctx, changed, a)
		} else if err == nil && a.State == wire.Expired {
			_, err = s.ExpireApprovals(ctx)
		}
		stop()
		if err != nil || a.State != seen {
			return a, err
		}
	}
}

// untilChange waits for a change, or for the deadline where that still matters.
func untilChange(ctx context.Context, changed <-chan struct{}, a Approval) error {
	var deadline <-chan time.Time
	if a.State == wire.Pending || a.State == wire.Approved {
		timer := time.NewTimer(max(minNap, time.Until(a.Deadline)))
		defer timer.Stop()
		deadline = timer.C
	}
	select {
	case <-changed:
	case <-deadline:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
