package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/budget"
	"github.com/madarco/agentbox/relay/proc"
	"github.com/madarco/agentbox/relay/store"
)

// job is one decided request.
type job struct {
	box  core.Box
	repo core.Repo
	// method and request are what the digest covers: nothing else of what a
	// box sends has any effect.
	method  string
	request any
	// requestID is the box's name for the attempt, if it gave one.
	requestID string
	// actor allowed the work where nobody is asked: "policy" or the operator.
	actor    string
	decision policy.Decision
	// denied is the exit code where the decision is to deny, ExitRefused if zero.
	denied int
	// message and push are shown to the user where the decision is to ask.
	message string
	push    *wire.PushApproval
	show    *wire.ActionApproval
	// ttl bounds the question, the server's bound if zero.
	ttl time.Duration
	// do does the work, and calls started with the child's pid.
	do func(ctx context.Context, started func(pid int) error) store.Outcome
}

// say tells the caller what it waits for, a line at a time.
type say func(line string)

// perform carries one job from decision to outcome. An envelope tells what came
// of it, refusals included; an error that nothing is known about it, because
// the caller went away, the relay stops, or the store failed.
func (s *Server) perform(ctx context.Context, j job, tell say) (wire.Envelope, error) {
	request, err := json.Marshal(j.request)
	if err != nil {
		return wire.Envelope{}, fmt.Errorf("encode the request: %w", err)
	}
	in := store.Intent{
		BoxID: j.box.ID, Method: j.method, RequestID: j.requestID, Digest: digest(j.box.ID, j.method, request),
		Actor: j.actor, Reason: j.decision.Reason, Detail: request, Request: request,
	}
	if env, found, err := s.replay(ctx, in); found || err != nil {
		return env, err
	}
	if j.actor == actorPolicy {
		if err := s.hasShare(ctx, j.box); errors.Is(err, relay.ErrRejected) {
			return refusal(wire.ExitRefused, err.Error()), nil
		} else if err != nil {
			return wire.Envelope{}, err
		}
	}
	switch j.decision.Verdict {
	case policy.Deny:
		return s.deny(ctx, j, in)
	case policy.Ask:
		a, err := s.ask(ctx, j, in, tell)
		if err != nil || a.State != wire.Approved {
			return s.settle(ctx, in, a, err)
		}
		in.ApprovalID, in.Actor, in.Reason = a.ID, a.AnsweredBy, "approved"
	}
	return s.run(ctx, j, in)
}

const actorPolicy = "policy"

// hasShare refuses, as relay.ErrRejected, a box that has used up its share of
// the audit log, and every box while the disk has no more than the reserve.
func (s *Server) hasShare(ctx context.Context, box core.Box) error {
	if err := s.room(string(s.cfg.Home), 0); err != nil {
		return err
	}
	used, err := s.st.AuditBytes(ctx, box.ID)
	if err == nil && used > maxAudit {
		err = fmt.Errorf("%w: the box has used up its share of the audit log; ask the user to make a new box", relay.ErrRejected)
	}
	return err
}

// digest names a request: the same box asking for the same thing.
func digest(boxID, method string, request []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s", boxID, method, request)
	return hex.EncodeToString(h.Sum(nil))
}

// refusal is an envelope without work. Its text opens with the reason.
func refusal(code int, reason string) wire.Envelope {
	return wire.Envelope{ExitCode: code, Stderr: reason + "\n"}
}

// succeeded and failed are outcomes that the box is told in the words that are
// kept.
func succeeded(text string) store.Outcome {
	return store.Outcome{Summary: text, Envelope: wire.Envelope{Stdout: text + "\n"}}
}

func failed(text string) store.Outcome {
	return store.Outcome{Failed: true, Summary: text, Envelope: refusal(wire.ExitFailed, text)}
}

// replay finds the result of an earlier attempt with the same request id.
func (s *Server) replay(ctx context.Context, in store.Intent) (wire.Envelope, bool, error) {
	if in.RequestID == "" {
		return wire.Envelope{}, false, nil
	}
	env, err := s.st.Result(ctx, in.BoxID, in.RequestID, in.Digest)
	if errors.Is(err, store.ErrNotFound) {
		return env, false, nil
	}
	return env, err == nil, err
}

func (s *Server) deny(ctx context.Context, j job, in store.Intent) (wire.Envelope, error) {
	detail, err := json.Marshal(map[string]any{"method": in.Method, "digest": in.Digest, "reason": j.decision.Reason, "what": in.Detail})
	if err != nil {
		return wire.Envelope{}, err
	}
	if _, err := s.st.AppendAudit(ctx, store.Entry{BoxID: in.BoxID, Actor: actorPolicy, Action: "work.refuse", Detail: detail}); err != nil {
		return wire.Envelope{}, err
	}
	return s.keep(ctx, in, refusal(cmp.Or(j.denied, wire.ExitRefused), j.decision.Reason))
}

// keep keeps the result of a request that needed no work, for its retries.
func (s *Server) keep(ctx context.Context, in store.Intent, env wire.Envelope) (wire.Envelope, error) {
	if in.RequestID == "" {
		return env, nil
	}
	return env, s.st.SaveResult(ctx, in.BoxID, in.RequestID, in.Digest, env)
}

// settle turns an approval that ended without a yes for this caller into an
// envelope.
func (s *Server) settle(ctx context.Context, in store.Intent, a store.Approval, err error) (wire.Envelope, error) {
	if errors.Is(err, store.ErrTooMany) {
		return refusal(wire.ExitDenied, fmt.Sprintf("%d questions of this box wait for the user already; wait for an answer first", maxPending)), nil
	}
	if err != nil {
		return wire.Envelope{}, s.stopped(err)
	}
	s.told.add(a.ID)
	return s.keep(ctx, in, verdict(a))
}

// untold finds a no to this very request that nobody has heard: the caller had
// gone before it was given. It is told once in place of a new question.
func (s *Server) untold(ctx context.Context, in store.Intent) (store.Approval, bool, error) {
	a, found, err := s.denied(ctx, in.BoxID, in.Digest)
	return a, found && time.Now().Before(a.Deadline) && !s.told.has(a.ID), err
}

// denied finds the last no to this very request.
func (s *Server) denied(ctx context.Context, boxID, digest string) (store.Approval, bool, error) {
	denied, err := s.st.Approvals(ctx, boxID, wire.Denied)
	if err != nil {
		return store.Approval{}, false, err
	}
	for _, a := range slices.Backward(denied) {
		if a.Digest == digest {
			return a, true, nil
		}
	}
	return store.Approval{}, false, nil
}

// heard are the answers that a caller has had. After a restart an answer may
// be told a second time, which costs a caller one more try.
type heard struct {
	mu  sync.Mutex
	ids map[string]bool
}

// maxHeard bounds the memory; forgetting early has the same effect as a restart.
const maxHeard = 10_000

func (h *heard) add(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ids == nil || len(h.ids) >= maxHeard {
		h.ids = map[string]bool{}
	}
	h.ids[id] = true
}

func (h *heard) has(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ids[id]
}

// stopped says why a wait ended where it was the relay that ended it.
func (s *Server) stopped(err error) error {
	if s.serving.Err() != nil && errors.Is(err, context.Canceled) {
		return errStopping
	}
	return err
}

// verdict is what a box reads about an approval that has ended.
func verdict(a store.Approval) wire.Envelope {
	switch a.State {
	case wire.Done:
		return wire.Envelope{Stdout: a.Result + "\n"}
	case wire.Failed:
		return refusal(wire.ExitFailed, a.Result)
	case wire.Expired:
		return refusal(wire.ExitTimeout, wire.RefusalExpired+": nobody answered "+a.ID+" in time; ask again to open a new question")
	case wire.Cancelled:
		return refusal(wire.ExitDenied, wire.RefusalDenied+": the question "+a.ID+" was withdrawn"+note(a))
	default:
		return refusal(wire.ExitDenied, wire.RefusalDenied+" by the user"+note(a))
	}
}

func note(a store.Approval) string {
	if a.Note == "" {
		return ""
	}
	return ": " + a.Note
}

// ask waits until the question about the job has an answer. When the caller
// goes away the question stays, and its yes lets the next caller through.
func (s *Server) ask(ctx context.Context, j job, in store.Intent, tell say) (store.Approval, error) {
	if a, ok, err := s.untold(ctx, in); ok || err != nil {
		return a, err
	}
	a, opened, err := s.st.OpenApproval(ctx, s.question(j, in.Digest, in.Request))
	if err != nil {
		return a, err
	}
	if opened {
		s.event(ctx, j.box.ID, "approval-pending", map[string]string{"id": a.ID, "message": a.Message})
	}
	for {
		switch a.State {
		case wire.Pending:
			if isAsync(ctx) {
				return a, parked{a}
			}
			tell("agentbox: " + a.Message)
			tell("agentbox: waiting for the user's yes; on the host: agentbox agent approve " + a.ID)
		case wire.Executing:
			tell("agentbox: " + a.ID + " was approved and is being done")
		default:
			return a, nil
		}
		if a, err = store.WaitApproval(ctx, s.st, a.ID, a.State); err != nil {
			return a, err
		}
	}
}

// question is what the user is asked about a job.
func (s *Server) question(j job, digest string, request json.RawMessage) store.Ask {
	return store.Ask{
		BoxID: j.box.ID, BoxName: j.box.Name, Method: j.method, Digest: digest, Message: j.message,
		Push: j.push, Action: j.show, Request: request, TTL: cmp.Or(j.ttl, s.cfg.ApprovalTTL), Limit: maxPending,
	}
}

// run does the work of a job, one at a time for each repository of a box.
func (s *Server) run(ctx context.Context, j job, in store.Intent) (wire.Envelope, error) {
	unlock, err := s.keys.lock(ctx, j.box.ID+"/"+cmp.Or(j.repo.Key, in.Digest))
	if err != nil {
		return wire.Envelope{}, s.stopped(err)
	}
	defer unlock()
	if env, found, err := s.replay(ctx, in); found || err != nil {
		return env, err
	}
	done, ok := s.begin()
	if !ok {
		return wire.Envelope{}, errStopping
	}
	defer done()
	begun, err := s.st.Begin(ctx, in)
	if in.ApprovalID != "" && (errors.Is(err, store.ErrSettled) || errors.Is(err, store.ErrExpired)) {
		// Another caller with the same request was first, or the deadline was.
		a, err := s.st.Approval(ctx, in.ApprovalID)
		return s.settle(ctx, in, a, err)
	} else if err != nil {
		return wire.Envelope{}, err
	}
	return s.finish(begun, j.do)
}

// finish does begun work to its end, whatever becomes of the caller. When the
// relay is stopped in the middle the intent stays, for Recover.
func (s *Server) finish(in store.Intent, do func(context.Context, func(int) error) store.Outcome) (wire.Envelope, error) {
	out := do(s.working, func(pid int) error {
		started, err := proc.Started(pid)
		if err != nil && !errors.Is(err, proc.ErrUnsupported) {
			return err
		}
		return s.st.SetChild(s.working, in.ID, store.Child{PID: pid, Started: started})
	})
	if s.working.Err() != nil {
		return wire.Envelope{}, errStopping
	}
	if err := s.st.End(s.working, in.ID, out); err != nil {
		return wire.Envelope{}, fmt.Errorf("write down the outcome: %w", err)
	}
	s.event(s.working, in.BoxID, in.Method, map[string]string{"summary": out.Summary})
	return out.Envelope, nil
}

// explain puts an error in words that the box may read: what it caused, or what the
// remote said. Of all else it learns only where to look.
func (s *Server) explain(boxID string, err error) string {
	for _, known := range []error{relay.ErrRejected, relay.ErrRemote, relay.ErrNoRemote, errStopping, budget.ErrNoRoom} {
		if errors.Is(err, known) {
			return err.Error()
		}
	}
	if errors.Is(err, relay.ErrBusy) {
		s.tell(boxID, slog.LevelWarn, "the user's repository is busy", err)
		return wire.RefusalBusy + ": " + relay.ErrBusy.Error() + "; it is tried again"
	}
	if errors.Is(err, context.Canceled) {
		return "the caller went away"
	}
	s.tell(boxID, slog.LevelError, "request failed", err)
	return "the host could not do it; ask the user to look into the relay's log"
}

// tell logs what went wrong for a box, as often as the limiter lets it: a box
// can make requests fail, and the log is on the user's disk.
func (s *Server) tell(boxID string, level slog.Level, what string, err error) {
	if skipped, ok := s.troubles.take(boxID); ok {
		s.log.Log(s.working, level, what, "box", boxID, "err", err, "skippedBefore", skipped)
	}
}
