package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// Begin implements store.WorkStore.
func (s *Store) Begin(ctx context.Context, in store.Intent) (begun store.Intent, err error) {
	err = s.write(ctx, func(now time.Time) error {
		fresh, err := store.NewIntent(in, now)
		if err != nil {
			return err
		}
		if fresh, err = clone(fresh); err != nil {
			return err
		}
		if err := s.checkRequest(fresh, now); err != nil {
			return err
		}
		used, approval := -1, store.Approval{}
		if fresh.ApprovalID != "" {
			if used, err = s.find(fresh.ApprovalID); err != nil {
				return err
			}
			if approval, err = s.approvals[used].Begun(fresh, now); err != nil {
				return err
			}
		}
		if slices.ContainsFunc(s.intents, func(o store.Intent) bool { return o.BoxID == fresh.BoxID && o.Digest == fresh.Digest }) {
			return fmt.Errorf("the same request runs now: %w", store.ErrExists)
		}
		if _, err := s.seal(fresh.BeginEntry(), now); err != nil {
			return err
		}
		if used >= 0 {
			s.move(used, approval)
		}
		s.intents = append(s.intents, fresh)
		begun, err = clone(fresh)
		return err
	})
	if err != nil {
		return store.Intent{}, fmt.Errorf("begin %s for box %s: %w", in.Method, in.BoxID, err)
	}
	return begun, nil
}

// checkRequest refuses a request id that has a result, and a box that has no
// room for another.
func (s *Store) checkRequest(in store.Intent, now time.Time) error {
	if in.RequestID == "" {
		return nil
	}
	_, err := s.result(in.BoxID, in.RequestID, in.Digest, now)
	switch {
	case err == nil:
		return fmt.Errorf("request %q has a result: %w", in.RequestID, store.ErrExists)
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	return s.checkBudget(in.BoxID, now)
}

func (s *Store) checkBudget(boxID string, now time.Time) error {
	kept := 0
	for key, r := range s.results {
		if key.box == boxID && r.fresh(now) {
			kept += r.bytes
		}
	}
	if kept >= store.ResultBudget {
		return fmt.Errorf("%d bytes of results are kept: %w", kept, store.ErrTooMany)
	}
	return nil
}

func (r result) fresh(now time.Time) bool { return now.Sub(r.at) < store.ResultTTL }

func (s *Store) findIntent(id string) (int, error) {
	i := slices.IndexFunc(s.intents, func(in store.Intent) bool { return in.ID == id })
	if i < 0 {
		return i, fmt.Errorf("work %q: %w", id, store.ErrNotFound)
	}
	return i, nil
}

// SetChild implements store.WorkStore.
func (s *Store) SetChild(ctx context.Context, id string, child store.Child) error {
	return s.write(ctx, func(time.Time) error {
		i, err := s.findIntent(id)
		if err == nil {
			s.intents[i].Child = child
		}
		return err
	})
}

// End implements store.WorkStore.
func (s *Store) End(ctx context.Context, id string, out store.Outcome) error {
	out = out.Fit()
	return s.write(ctx, func(now time.Time) error {
		i, err := s.findIntent(id)
		if err != nil {
			return err
		}
		in := s.intents[i]
		used, approval := -1, store.Approval{}
		if in.ApprovalID != "" {
			if used, err = s.find(in.ApprovalID); err != nil {
				return err
			}
			if approval, err = s.approvals[used].Ended(out, now); err != nil {
				return err
			}
		}
		if _, err := s.seal(in.EndEntry(out), now); err != nil {
			return err
		}
		if used >= 0 {
			s.move(used, approval)
		}
		s.intents = slices.Delete(s.intents, i, i+1)
		if in.RequestID == "" {
			return nil
		}
		return s.keepResult(in.BoxID, in.RequestID, in.Digest, out.Envelope, now)
	})
}

// Intents implements store.WorkStore.
func (s *Store) Intents(ctx context.Context) (all []store.Intent, err error) {
	err = s.read(ctx, func(time.Time) (err error) {
		all, err = cloneAll(s.intents)
		return err
	})
	return all, err
}

func (s *Store) result(boxID, requestID, digest string, now time.Time) (wire.Envelope, error) {
	r, ok := s.results[resultKey{boxID, requestID}]
	switch {
	case !ok || !r.fresh(now):
		return wire.Envelope{}, fmt.Errorf("result of request %q: %w", requestID, store.ErrNotFound)
	case r.digest != digest:
		return wire.Envelope{}, fmt.Errorf("result of request %q: %w", requestID, store.ErrConflict)
	}
	return r.env, nil
}

func (s *Store) keepResult(boxID, requestID, digest string, env wire.Envelope, now time.Time) error {
	raw, err := json.Marshal(env)
	if err != nil {
		return err
	}
	s.results[resultKey{boxID, requestID}] = result{digest: digest, at: now, env: env, bytes: len(raw)}
	return nil
}

// Result implements store.WorkStore.
func (s *Store) Result(ctx context.Context, boxID, requestID, digest string) (env wire.Envelope, err error) {
	err = s.read(ctx, func(now time.Time) (err error) {
		env, err = s.result(boxID, requestID, digest, now)
		return err
	})
	return env, err
}

// SaveResult implements store.WorkStore.
func (s *Store) SaveResult(ctx context.Context, boxID, requestID, digest string, env wire.Envelope) error {
	env = store.Outcome{Envelope: env}.Fit().Envelope
	return s.write(ctx, func(now time.Time) error {
		_, err := s.result(boxID, requestID, digest, now)
		if err == nil || !errors.Is(err, store.ErrNotFound) {
			return err // the first one stays
		}
		if err := s.checkBudget(boxID, now); err != nil {
			return err
		}
		return s.keepResult(boxID, requestID, digest, env, now)
	})
}
