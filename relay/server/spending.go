package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/budget"
	"github.com/madarco/agentbox/relay/store"
)

const methodBudget = "box.budget"

// budgetRequest grants a box so many budgets beyond the first.
type budgetRequest struct {
	Raised int `json:"raised"`
}

// accountFile is where a box's account lies; it goes when the box is destroyed.
func accountFile(home core.Home) func(boxID string) string {
	return func(boxID string) string { return filepath.Join(home.Box(boxID), "spent.json") }
}

// take imports what a box has sent, if the box may still cost something and the
// disks have room, and books what it has cost.
func (s *Server) take(ctx context.Context, o order, pack io.Reader, updates []policy.RefUpdate) error {
	if err := s.afford(ctx, o.box); err != nil {
		return err
	}
	paths := []string{string(s.cfg.Home), o.repo.CommonDir}
	for _, path := range paths {
		if err := s.room(path, 0); err != nil {
			return err
		}
	}
	var size counter
	if pack != nil {
		for _, path := range paths {
			pack = s.disk.Reader(path, pack)
		}
		pack = io.TeeReader(pack, &size)
	}
	metered, meter := budget.Measure(ctx)
	err := o.gate.Import(metered, pack, updates)
	if errors.Is(err, budget.ErrNoRoom) {
		err = s.noRoom(o.repo.CommonDir, err)
	}
	return errors.Join(err, s.ledger.Add(o.box.ID, int64(size), meter.CPU()))
}

// counter counts bytes.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// room refuses, as relay.ErrRejected, what would use up the reserve of the disk.
func (s *Server) room(path string, need int64) error {
	err := s.disk.Room(path, need)
	if errors.Is(err, budget.ErrNoRoom) {
		return s.noRoom(path, err)
	}
	return err
}

func (s *Server) noRoom(path string, err error) error {
	s.log.Warn("refused for want of disk", "path", path, "reserve", budget.Size(s.disk.Reserve))
	return fmt.Errorf("%w: %w", relay.ErrRejected, err)
}

// afford refuses, as relay.ErrRejected, a box that has spent its budget, and asks
// the user for another one.
func (s *Server) afford(ctx context.Context, box core.Box) error {
	err := s.ledger.Afford(box.ID)
	var spent *budget.SpentError
	if !errors.As(err, &spent) {
		return err
	}
	request, err := json.Marshal(budgetRequest{Raised: spent.Account.Raised + 1})
	if err != nil {
		return err
	}
	said, err := s.openQuestion(ctx, store.Ask{
		BoxID: box.ID, BoxName: box.Name, Method: methodBudget, Digest: digest(box.ID, methodBudget, request),
		Message: fmt.Sprintf("let box %s land another %s: it has landed %s, with %s of processor time",
			box.Name, budget.Size(s.cfg.Budget.Bytes), budget.Size(spent.Account.Bytes), spent.Account.CPU.Round(time.Second)),
		Request: request, TTL: s.cfg.ApprovalTTL, Limit: maxPending,
	})
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %w; %s", relay.ErrRejected, spent, said)
}

// raise grants a box another budget, for carryOut.
func (s *Server) raise(in store.Intent) store.Outcome {
	var r budgetRequest
	err := json.Unmarshal(in.Request, &r)
	if err == nil {
		err = s.ledger.Raise(in.BoxID, r.Raised)
	}
	if err != nil {
		return failed(s.explain(in.BoxID, err))
	}
	return succeeded(fmt.Sprintf("the box may land another %s; what it could not hand in goes with: agentbox land", budget.Size(s.cfg.Budget.Bytes)))
}
