package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
)

// Errors that callers branch on; drivers wrap them with what they were about.
var (
	// ErrNotFound: there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrExists: the same work runs or has run already.
	ErrExists = errors.New("exists already")
	// ErrConflict: the id is known, for another request (digest or box).
	ErrConflict = errors.New("belongs to another request")
	// ErrSettled: the approval is past the state that the call needs, because
	// somebody else was first.
	ErrSettled = errors.New("settled already")
	// ErrExpired: the approval's deadline has passed.
	ErrExpired = errors.New("expired")
	// ErrTooMany: the box is at its bound; nothing was written.
	ErrTooMany = errors.New("too many")
	// ErrTooLarge: one value is over its bound; nothing was written.
	ErrTooLarge = errors.New("too large")
	// ErrSecret: a login never lies where events do.
	ErrSecret = errors.New("a login is not kept as an event")
	// ErrTampered: the audit chain does not hold.
	ErrTampered = errors.New("the audit log was changed")
	// ErrNewerSchema: a newer version of the program wrote the database, which
	// was left as it is.
	ErrNewerSchema = errors.New("the database is from a newer version")
	// ErrClosed: the store was closed before the call.
	ErrClosed = errors.New("store closed")
)

// Bounds on what is kept.
const (
	// RingSize is how many events per box are kept; older ones go.
	RingSize = 1000
	// RingBytes bounds the events kept per box, too.
	RingBytes = 4 << 20
	// ResultTTL is how long the result of a request answers its retries.
	ResultTTL = 10 * time.Minute
	// SettledTTL is how long settled approvals stay listed.
	SettledTTL = 7 * 24 * time.Hour

	// MaxTextBytes bounds the short texts of one call together (method, digest,
	// ids, message; or the answerer and the note), so that an audit entry that
	// repeats them always fits.
	MaxTextBytes = 4 << 10
	// MaxEventBytes bounds type, time and payload of one event together.
	MaxEventBytes = 16 << 10
	// MaxStatusBytes bounds one status snapshot.
	MaxStatusBytes = 256 << 10
	// MaxRequestBytes bounds the request of an approval or intent.
	MaxRequestBytes = 256 << 10
	// MaxDetailBytes bounds the texts of one audit entry together.
	MaxDetailBytes = 64 << 10
	// MaxResultBytes bounds one kept result.
	MaxResultBytes = 1 << 20
	// ResultBudget bounds the results that one box can have kept at a time.
	ResultBudget = 32 << 20
)

// Store is all that a relay remembers. Implementations are safe for concurrent
// use. A context that ends before a write has begun prevents it; a write that
// has begun is finished, so that the caller knows what happened.
type Store interface {
	BoxStore
	ApprovalStore
	WorkStore
	AuditStore
	EventStore

	// Watch returns a channel that is closed at the next change of the topic
	// after the call, and a function that gives it up. Watch first, then read,
	// then wait: no change is missed. See WaitApproval.
	Watch(topic Topic) (changed <-chan struct{}, stop func())

	// Prune forgets results older than ResultTTL and approvals settled longer
	// ago than SettledTTL, and lets the driver tidy its files. Call it about
	// once an hour.
	Prune(ctx context.Context) error

	// Close waits for writes that have begun. It may be called twice.
	Close() error
}

// TokenHash is the SHA-256 of a box's token, the only form in which it is kept.
type TokenHash [sha256.Size]byte

// HashToken hashes a token as presented by a box.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

// Registration is a box that the relay serves.
type Registration struct {
	Box          core.Box
	Token        TokenHash
	RegisteredAt time.Time
}

// BoxStore keeps registrations and the latest status of each box.
type BoxStore interface {
	// RegisterBox writes the box's record and token; an earlier registration
	// of the id is replaced, and its token no longer found. A token that
	// another box holds is ErrExists.
	RegisterBox(ctx context.Context, box core.Box, token TokenHash) (Registration, error)
	// Box finds a registration, else ErrNotFound.
	Box(ctx context.Context, id string) (Registration, error)
	// BoxByToken finds the box that a token was registered for, else
	// ErrNotFound. For channels that several boxes share.
	BoxByToken(ctx context.Context, token TokenHash) (Registration, error)
	// Boxes lists registrations, oldest first.
	Boxes(ctx context.Context) ([]Registration, error)
	// ForgetBox removes registration, status, events and results of the box,
	// and cancels its questions and unused yeses; false when there was no
	// registration. Audit entries and the box's event numbering stay.
	ForgetBox(ctx context.Context, id string) (bool, error)

	// SetStatus replaces the status of a registered box.
	SetStatus(ctx context.Context, boxID string, snapshot json.RawMessage) error
	// Status is the latest status of a box, else ErrNotFound.
	Status(ctx context.Context, boxID string) (Status, error)
	// Statuses lists the latest status of every box that has sent one.
	Statuses(ctx context.Context) ([]Status, error)
}

// Status is the last snapshot that a box sent; the snapshot is the box's text.
type Status struct {
	BoxID     string
	Snapshot  json.RawMessage
	UpdatedAt time.Time
}

// Approval is what a person is asked, and all that it takes to do it later.
type Approval struct {
	wire.Approval
	// Request is the decoded, typed request, of which Digest is the digest.
	Request json.RawMessage
	// UpdatedAt is when State last changed.
	UpdatedAt time.Time
	// Envelope is what came of it, once done or failed, for everyone who waits.
	Envelope *wire.Envelope
}

// Ask opens an approval.
type Ask struct {
	BoxID   string
	BoxName core.BoxName
	Method  string
	Digest  string
	Message string
	Push    *wire.PushApproval
	Land    *wire.LandApproval
	Action  *wire.ActionApproval
	Request json.RawMessage
	// TTL is how long the question stands.
	TTL time.Duration
	// Limit is how many questions of the box may be pending; 0 means no bound.
	Limit int
}

// Reply answers an approval. Digest, when given, must be the approval's. By
// says who answered; Note is that person's text.
type Reply struct {
	Yes    bool
	Digest string
	By     string
	Note   string
}

// ApprovalStore keeps approvals; the package comment shows their life.
type ApprovalStore interface {
	// OpenApproval writes a new question (opened is true), or returns the live
	// one of the same box and digest, be it pending, approved or executing.
	// ErrTooMany when the box is at its limit; joining is never refused.
	OpenApproval(ctx context.Context, ask Ask) (a Approval, opened bool, err error)
	// Approval finds one by id, else ErrNotFound. Past its deadline it shows
	// as expired, swept or not.
	Approval(ctx context.Context, id string) (Approval, error)
	// Approvals lists, oldest first, those of the box ("" means all boxes) in
	// one of the states (none means all states).
	Approvals(ctx context.Context, boxID string, states ...wire.ApprovalState) ([]Approval, error)
	// PendingApprovals counts questions of the box ("" means all boxes).
	PendingApprovals(ctx context.Context, boxID string) (int, error)
	// AnswerApproval moves a pending approval to approved or denied. Errors:
	// ErrNotFound, ErrConflict (digest), ErrExpired, ErrSettled, ErrTooLarge.
	AnswerApproval(ctx context.Context, id string, r Reply) (Approval, error)
	// CancelApproval withdraws a question or an unused yes. Errors as above.
	CancelApproval(ctx context.Context, id, by, note string) (Approval, error)
	// ExpireApprovals moves what is past its deadline to expired and returns
	// it. WaitApproval calls it in time; others need not.
	ExpireApprovals(ctx context.Context) ([]Approval, error)
}

// Intent is written before work begins, so that after a crash the relay knows
// what it was doing and which process may still be doing it.
type Intent struct {
	// ID is minted by Begin.
	ID     string
	BoxID  string
	Method string
	Digest string
	// RequestID is the box's name for the attempt; empty when it gave none.
	RequestID string
	// ApprovalID is the yes that this work uses up; empty when policy allowed
	// it without a question.
	ApprovalID string
	// Actor and Reason say for the audit who allowed the work and why; Detail
	// says what is about to be done, at most MaxDetailBytes.
	Actor  string
	Reason string
	Detail json.RawMessage
	// Request is what recovery needs to do the same again.
	Request   json.RawMessage
	StartedAt time.Time
	Child     Child
}

// Child is the process that does an intent's work. Started is the start time
// as the kernel tells it, in whatever unit the platform has: only equality
// counts, so that a reused pid is never taken for the child.
type Child struct {
	PID     int
	Started string
}

// Outcome ends an intent.
type Outcome struct {
	Failed bool
	// Envelope is what the box gets, now and on retries of the request id. Its
	// texts are kept up to half of MaxResultBytes each.
	Envelope wire.Envelope
	// Summary is one line of ours for the approval and the audit.
	Summary string
}

// WorkStore keeps what runs and what came of it.
type WorkStore interface {
	// Begin writes the intent and its audit entry, and takes the approval, if
	// one is named, from approved to executing, all or nothing. Errors:
	// ErrNotFound, ErrExpired, ErrSettled, ErrConflict for the approval (the
	// box and digest must be its own); ErrExists when work with the box's
	// digest runs or the request id has a result; ErrConflict when the request
	// id has one for another digest; ErrTooMany over ResultBudget.
	Begin(ctx context.Context, in Intent) (Intent, error)
	// SetChild records the process, before it may do anything that lasts.
	SetChild(ctx context.Context, id string, child Child) error
	// End removes the intent, keeps the result under the request id, settles
	// the approval and writes the audit entry, all or nothing. A second End is
	// ErrNotFound.
	End(ctx context.Context, id string, out Outcome) error
	// Intents lists what has begun and not ended, oldest first.
	Intents(ctx context.Context) ([]Intent, error)

	// Result finds the kept result of a request. ErrNotFound when there is none
	// or it is too old; ErrConflict when the id was used with another digest.
	Result(ctx context.Context, boxID, requestID, digest string) (wire.Envelope, error)
	// SaveResult keeps a result that came without work, such as a refusal. The
	// first one stays. Errors: ErrConflict, ErrTooLarge, ErrTooMany.
	SaveResult(ctx context.Context, boxID, requestID, digest string, env wire.Envelope) error
}

// Entry is what a caller says in an audit entry; the store adds number, time
// and hashes. BoxID is empty for what concerns no box.
type Entry struct {
	BoxID  string
	Actor  string
	Action string
	Detail json.RawMessage
}

// Head names the last entry of the audit chain; the zero Head is the empty
// chain. Whoever keeps it outside the database can tell when the end was cut.
type Head struct {
	Seq  int64
	Hash string
}

// AuditLog is the audit chain to read. VerifyAudit checks it.
type AuditLog interface {
	// Audit lists up to limit entries after number since, oldest first.
	Audit(ctx context.Context, since int64, limit int) ([]wire.AuditEntry, error)
	// AuditHead is the last entry's number and hash.
	AuditHead(ctx context.Context) (Head, error)
}

// AuditStore keeps the audit chain.
type AuditStore interface {
	AuditLog
	// AppendAudit adds an entry. When it returns, the entry is durable.
	AppendAudit(ctx context.Context, e Entry) (wire.AuditEntry, error)
	// AuditBytes is how much the entries of a box take, ever.
	AuditBytes(ctx context.Context, boxID string) (int64, error)
}

// Cursor is a place in the feed of all boxes. It has no meaning outside the
// driver that made it; "" is before the oldest kept event.
type Cursor string

// EventStore keeps the last RingSize events of each box as far as RingBytes hold
// them, numbered per box from 1. An event that was acknowledged outlives the
// process, but perhaps not a cut of the power. Numbers go on when a box is registered again.
type EventStore interface {
	// AppendEvent numbers and keeps an event of a registered box. Errors:
	// ErrNotFound, ErrTooLarge, ErrSecret.
	AppendEvent(ctx context.Context, boxID string, e wire.PostEvent) (wire.Event, error)
	// Events lists up to limit events of the box with numbers above since, in
	// order. A first number above since+1 tells that the ring has moved on.
	Events(ctx context.Context, boxID string, since int64, limit int) ([]wire.Event, error)
	// Feed lists up to limit events of all boxes after the cursor, in the
	// order they were kept, and the cursor to go on from. A cursor that the
	// driver did not make is ErrNotFound.
	Feed(ctx context.Context, after Cursor, limit int) ([]wire.Event, Cursor, error)
	// FeedEnd is the cursor after the newest event.
	FeedEnd(ctx context.Context) (Cursor, error)
}

// Topic is something whose changes can be watched.
type Topic string

// PendingTopic changes when any approval is opened or changes its state.
const PendingTopic Topic = "approvals"

// FeedTopic changes with every event of any box.
const FeedTopic Topic = "feed"

// ApprovalTopic changes with the state of one approval.
func ApprovalTopic(id string) Topic { return Topic("approval/" + id) }

// StatusTopic changes with the status of one box.
func StatusTopic(boxID string) Topic { return Topic("status/" + boxID) }

// EventsTopic changes with every event of one box.
func EventsTopic(boxID string) Topic { return Topic("events/" + boxID) }
