package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/proc"
	"github.com/madarco/agentbox/relay/store"
)

// Recover finishes what an earlier relay had begun. A child of it that still
// runs is ended first, as two pushes of one update could meet; then the same
// request runs again: what had happened is then up to date, and what somebody
// else changed meanwhile fails its lease. It returns once nothing of the earlier
// relay runs any more; the rest goes on beside the server, ahead of new work on
// the same repository.
func (s *Server) Recover(ctx context.Context) error {
	intents, err := s.st.Intents(ctx)
	if err != nil {
		return fmt.Errorf("list what was begun: %w", err)
	}
	for _, in := range intents {
		if err := proc.End(ctx, in.Child.PID, in.Child.Started); err != nil && !errors.Is(err, proc.ErrUnsupported) {
			return err
		}
	}
	for _, in := range intents {
		if err := s.resume(ctx, in); err != nil {
			return err
		}
	}
	return s.carryOutAgreed(ctx)
}

// resume does one intent again, beside the caller.
func (s *Server) resume(ctx context.Context, in store.Intent) error {
	var target struct {
		Repo string `json:"repo"`
	}
	if err := json.Unmarshal(in.Request, &target); err != nil {
		return fmt.Errorf("read what %s was about: %w", in.ID, err)
	}
	unlock, err := s.keys.lock(ctx, in.BoxID+"/"+cmp.Or(target.Repo, in.Digest))
	if err != nil {
		return err
	}
	done, ok := s.begin()
	if !ok {
		unlock()
		return errStopping
	}
	go func() {
		defer done()
		defer unlock()
		if _, err := s.finish(in, s.again(in, target.Repo)); err != nil {
			s.log.Error("finish what an earlier relay began", "work", in.ID, "err", err)
		}
	}()
	return nil
}

// again is the work of an intent that may have been done in part, from what was
// written down.
func (s *Server) again(in store.Intent, key string) func(context.Context, func(int) error) store.Outcome {
	return func(ctx context.Context, started func(int) error) store.Outcome {
		if in.Method == methodBudget {
			return s.raise(in)
		}
		if m, ok := s.hostMethod(in.Method); ok {
			return s.action(ctx, in, func(call relay.Call) store.Outcome { return m.Resume(ctx, call) })
		}
		box, repo, gate, err := s.gateOf(ctx, in.BoxID, key)
		if err != nil {
			return failed(s.explain(in.BoxID, err))
		}
		var push pushRequest
		var land landRequest
		switch in.Method {
		case methodPush:
			if err = json.Unmarshal(in.Request, &push); err == nil {
				out, _ := s.send(ctx, box, gate, push, started)
				return out
			}
		case methodLand:
			if err = json.Unmarshal(in.Request, &land); err == nil {
				return s.moveBranch(ctx, box, repo, gate, land)
			}
		default:
			err = ErrUnknownMethod
		}
		s.log.Error("read what an earlier relay began", "work", in.ID, "err", err)
		return failed("the relay was restarted while it ran; ask again")
	}
}

// work is that of an intent that has not begun yet.
func (s *Server) work(in store.Intent, key string) func(context.Context, func(int) error) store.Outcome {
	m, ok := s.hostMethod(in.Method)
	if !ok {
		return s.again(in, key)
	}
	return func(ctx context.Context, started func(int) error) store.Outcome {
		return s.action(ctx, in, func(call relay.Call) store.Outcome { return m.Do(ctx, call, started) })
	}
}

// action calls a method with what is written down of a host action.
func (s *Server) action(ctx context.Context, in store.Intent, do func(relay.Call) store.Outcome) store.Outcome {
	reg, err := s.st.Box(ctx, in.BoxID)
	if errors.Is(err, store.ErrNotFound) {
		return failed("the box is gone")
	} else if err != nil {
		return failed(s.explain(in.BoxID, err))
	}
	return do(relay.Call{Box: reg.Box, Method: in.Method, Body: in.Request})
}

func (s *Server) gateOf(ctx context.Context, boxID, key string) (core.Box, core.Repo, relay.Gate, error) {
	reg, err := s.st.Box(ctx, boxID)
	if errors.Is(err, store.ErrNotFound) {
		return core.Box{}, core.Repo{}, nil, fmt.Errorf("%w: the box is gone", relay.ErrRejected)
	} else if err != nil {
		return core.Box{}, core.Repo{}, nil, err
	}
	repo, ok := reg.Box.Repo(key)
	if !ok {
		return core.Box{}, core.Repo{}, nil, fmt.Errorf("%w: the box has the repository no longer", relay.ErrRejected)
	}
	gate, err := s.cfg.Gates.Gate(ctx, reg.Box, repo)
	return reg.Box, repo, gate, err
}
