package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/madarco/agentbox/core/wire"
)

// Live tells whether the same request joins an approval in this state.
func Live(s wire.ApprovalState) bool {
	return s == wire.Pending || s == wire.Approved || s == wire.Executing
}

// Edges are the moves that an approval can make; an end state has none.
var Edges = map[wire.ApprovalState][]wire.ApprovalState{
	wire.Pending:   {wire.Approved, wire.Denied, wire.Expired, wire.Cancelled},
	wire.Approved:  {wire.Executing, wire.Expired, wire.Cancelled},
	wire.Executing: {wire.Done, wire.Failed},
}

// NewApproval makes the pending approval of an ask, for drivers. now is the
// driver's clock, cut to the millisecond.
func NewApproval(ask Ask, now time.Time) (Approval, error) {
	if err := checkSize(ask.Request, ask.Method, ask.Digest, ask.Message); err != nil {
		return Approval{}, err
	}
	a := Approval{
		Approval: wire.Approval{
			ID:        newID("a"),
			BoxID:     ask.BoxID,
			BoxName:   ask.BoxName,
			Method:    ask.Method,
			Digest:    ask.Digest,
			State:     wire.Pending,
			Message:   ask.Message,
			Push:      ask.Push,
			Land:      ask.Land,
			Action:    ask.Action,
			CreatedAt: now,
			Deadline:  now.Add(ask.TTL.Truncate(time.Millisecond)),
		},
		Request:   ask.Request,
		UpdatedAt: now,
	}
	// What can't be read back must not be written.
	body, err := json.Marshal(a)
	if err != nil {
		return Approval{}, fmt.Errorf("write the question about %s down: %w", ask.Method, err)
	}
	var kept Approval
	if err := json.Unmarshal(body, &kept); err != nil {
		return Approval{}, fmt.Errorf("write the question about %s down: %w", ask.Method, err)
	}
	return kept, nil
}

// At is the approval as it stands at now: at its deadline a question, and a yes
// that nobody used, have expired.
func (a Approval) At(now time.Time) Approval {
	if (a.State == wire.Pending || a.State == wire.Approved) && !now.Before(a.Deadline) {
		a.State, a.UpdatedAt = wire.Expired, a.Deadline
	}
	return a
}

// Answered is the approval after the reply.
func (a Approval) Answered(r Reply, now time.Time) (Approval, error) {
	to := wire.Denied
	if r.Yes {
		to = wire.Approved
	}
	if r.Digest != "" && r.Digest != a.Digest {
		return a, fmt.Errorf("answer approval %s: the answer is to digest %q: %w", a.ID, r.Digest, ErrConflict)
	}
	return a.settled(to, r.By, r.Note, now)
}

// Cancel is the approval after it was withdrawn.
func (a Approval) Cancel(by, note string, now time.Time) (Approval, error) {
	return a.settled(wire.Cancelled, by, note, now)
}

func (a Approval) settled(to wire.ApprovalState, by, note string, now time.Time) (Approval, error) {
	if err := checkSize(nil, by, note); err != nil {
		return a, err
	}
	b, err := a.moved(to, now)
	if err != nil {
		return a, err
	}
	b.AnsweredAt, b.AnsweredBy, b.Note = now, by, note
	return b, nil
}

// Begun is the approval after the intent has used it up.
func (a Approval) Begun(in Intent, now time.Time) (Approval, error) {
	if in.BoxID != a.BoxID || in.Digest != a.Digest || in.Method != a.Method {
		return a, fmt.Errorf("run approval %s: %w", a.ID, ErrConflict)
	}
	return a.moved(wire.Executing, now)
}

// Ended is the approval after its work.
func (a Approval) Ended(out Outcome, now time.Time) (Approval, error) {
	to := wire.Done
	if out.Failed {
		to = wire.Failed
	}
	b, err := a.moved(to, now)
	if err != nil {
		return a, err
	}
	b.Result, b.Envelope = out.Summary, &out.Envelope
	return b, nil
}

func (a Approval) moved(to wire.ApprovalState, now time.Time) (Approval, error) {
	from := a.At(now).State
	if !slices.Contains(Edges[from], to) {
		why := ErrSettled
		if from == wire.Expired {
			why = ErrExpired
		}
		return a, fmt.Errorf("move approval %s from %s to %s: %w", a.ID, from, to, why)
	}
	a.State, a.UpdatedAt = to, now
	return a, nil
}

// Entry is the audit entry of the state that the approval has just reached.
func (a Approval) Entry() Entry {
	actor := "relay"
	switch a.State {
	case wire.Pending:
		actor = "box"
	case wire.Approved, wire.Denied, wire.Cancelled:
		actor = a.AnsweredBy
	}
	return Entry{BoxID: a.BoxID, Actor: actor, Action: "approval." + string(a.State), Detail: detail(struct {
		Approval string `json:"approval"`
		Method   string `json:"method"`
		Digest   string `json:"digest"`
		Message  string `json:"message,omitempty"`
		Note     string `json:"note,omitempty"`
	}{a.ID, a.Method, a.Digest, a.Message, a.Note})}
}

// NewIntent completes an intent that is about to be written, for drivers.
func NewIntent(in Intent, now time.Time) (Intent, error) {
	if err := checkSize(in.Request, in.Method, in.Digest, in.RequestID, in.ApprovalID); err != nil {
		return in, err
	}
	in.ID, in.StartedAt, in.Child = newID("w"), now, Child{}
	return in, nil
}

// BeginEntry is the audit entry that exists before the work does.
func (in Intent) BeginEntry() Entry {
	return Entry{BoxID: in.BoxID, Actor: in.Actor, Action: "work.begin", Detail: detail(workDetail{
		Work: in.ID, Method: in.Method, Digest: in.Digest, Approval: in.ApprovalID, Reason: in.Reason, What: in.Detail,
	})}
}

// EndEntry is the audit entry of what came of the work.
func (in Intent) EndEntry(out Outcome) Entry {
	result := "done"
	if out.Failed {
		result = "failed"
	}
	return Entry{BoxID: in.BoxID, Actor: "relay", Action: "work.end", Detail: detail(workDetail{
		Work: in.ID, Method: in.Method, Digest: in.Digest, Approval: in.ApprovalID,
		Result: result, ExitCode: &out.Envelope.ExitCode, Summary: out.Summary,
	})}
}

type workDetail struct {
	Work     string          `json:"work"`
	Method   string          `json:"method"`
	Digest   string          `json:"digest"`
	Approval string          `json:"approval,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	What     json.RawMessage `json:"what,omitempty"`
	Result   string          `json:"result,omitempty"`
	ExitCode *int            `json:"exitCode,omitempty"`
	Summary  string          `json:"summary,omitempty"`
}

// detail leaves what can't be marshalled as it is: Seal refuses it.
func detail(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(err.Error())
	}
	return raw
}

// summaryLimit keeps the end of work from failing for want of room in its entry.
const summaryLimit = 1000

// Fit is the outcome cut to what is kept. An end is never refused for its size:
// the work has happened.
func (o Outcome) Fit() Outcome {
	o.Summary = cut(o.Summary, summaryLimit)
	o.Envelope.Stdout = cut(o.Envelope.Stdout, MaxResultBytes/2)
	o.Envelope.Stderr = cut(o.Envelope.Stderr, MaxResultBytes/2)
	return o
}

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

// newID makes an id that people can type: 48 random bits.
func newID(prefix string) string {
	var raw [6]byte
	rand.Read(raw[:]) //nolint:errcheck // crypto/rand.Read never fails
	return prefix + hex.EncodeToString(raw[:])
}
