package store

import (
	"errors"
	"testing"
	"time"

	"github.com/madarco/agentbox/core/wire"
)

var (
	allStates = []wire.ApprovalState{
		wire.Pending, wire.Approved, wire.Denied, wire.Expired, wire.Cancelled, wire.Executing, wire.Done, wire.Failed,
	}
	noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
)

func approvalIn(state wire.ApprovalState) Approval {
	a, err := NewApproval(Ask{BoxID: "b1", Method: "m", Digest: "d", TTL: time.Hour}, noon)
	if err != nil {
		panic(err)
	}
	a.State = state
	return a
}

// The table is the picture in the package comment, every pair of it.
func TestApprovalsMoveAlongTheirEdgesOnly(t *testing.T) {
	moves := map[string]func(Approval, time.Time) (Approval, error){
		"yes":    func(a Approval, now time.Time) (Approval, error) { return a.Answered(Reply{Yes: true}, now) },
		"no":     func(a Approval, now time.Time) (Approval, error) { return a.Answered(Reply{}, now) },
		"cancel": func(a Approval, now time.Time) (Approval, error) { return a.Cancel("operator", "", now) },
		"begin": func(a Approval, now time.Time) (Approval, error) {
			return a.Begun(Intent{BoxID: "b1", Method: "m", Digest: "d"}, now)
		},
		"done":   func(a Approval, now time.Time) (Approval, error) { return a.Ended(Outcome{}, now) },
		"failed": func(a Approval, now time.Time) (Approval, error) { return a.Ended(Outcome{Failed: true}, now) },
	}
	allowed := map[wire.ApprovalState]map[string]wire.ApprovalState{
		wire.Pending:   {"yes": wire.Approved, "no": wire.Denied, "cancel": wire.Cancelled},
		wire.Approved:  {"begin": wire.Executing, "cancel": wire.Cancelled},
		wire.Executing: {"done": wire.Done, "failed": wire.Failed},
	}
	for _, from := range allStates {
		for name, move := range moves {
			for _, late := range []bool{false, true} {
				now, to := noon.Add(time.Minute), allowed[from][name]
				if late {
					now = noon.Add(time.Hour)
					if from != wire.Executing {
						to = ""
					}
				}
				start := approvalIn(from)
				got, err := move(start, now)
				switch {
				case to != "" && (err != nil || got.State != to || !got.UpdatedAt.Equal(now)):
					t.Errorf("%s by %s (late: %v) = %s at %v, %v; want %s", from, name, late, got.State, got.UpdatedAt, err, to)
				case to == "" && (got.State != from || !errors.Is(err, ErrSettled) && !errors.Is(err, ErrExpired)):
					t.Errorf("%s by %s (late: %v) = %s, %v; want a refusal", from, name, late, got.State, err)
				}
			}
		}
	}
}

func TestOnlyWhatWasNotUsedExpires(t *testing.T) {
	for _, from := range allStates {
		a := approvalIn(from)
		if got := a.At(a.Deadline.Add(-time.Millisecond)).State; got != from {
			t.Errorf("%s is %s before its deadline", from, got)
		}
		want := from
		if from == wire.Pending || from == wire.Approved {
			want = wire.Expired
		}
		if got := a.At(a.Deadline).State; got != want {
			t.Errorf("%s is %s at its deadline; want %s", from, got, want)
		}
	}
}

func TestEveryEndStateIsNotLive(t *testing.T) {
	for _, s := range allStates {
		if ends := len(Edges[s]) == 0; ends == Live(s) {
			t.Errorf("%s: has no edges: %v; is live: %v", s, ends, Live(s))
		}
	}
}
