// Package wire holds the JSON bodies that cross a socket: between a box and
// the relay, and between the user's commands and the relay.
//
// Invariants:
//   - A body from a box decodes only through Decode, which refuses unknown,
//     repeated and case-variant keys, invalid UTF-8 and trailing data.
//   - Nothing here carries a credential of the user.
package wire

import (
	"encoding/json"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
)

// BoxRelayAddr is where a box reaches its relay, in every provider.
const BoxRelayAddr = "127.0.0.1:8788"

// LandingPrefix starts the refs by which a box hands in commits for landing.
const LandingPrefix = "refs/agentbox/landing/"

// HostPrefix starts the refs that show the user's own branches to the box; it
// fetches refs/agentbox/host/<base> into refs/remotes/host/<base>.
const HostPrefix = "refs/agentbox/host/"

// Exit codes of an Envelope and of the commands that print one. Codes that
// are not named here are the child's own.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitDenied      = 10
	ExitBadRequest  = 64
	ExitRefused     = 65
	ExitEnvironment = 78
	ExitTimeout     = 124
	ExitTransport   = 126
	ExitNotFound    = 127
)

// Request is the body of POST /rpc.
type Request struct {
	// RequestID names the attempt: the same id with the same method and params
	// runs once, and its result is kept for ten minutes.
	RequestID string          `json:"requestId,omitempty"`
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params,omitempty"`
}

// Envelope answers a Request.
type Envelope struct {
	ExitCode int    `json:"exitCode"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
}

// Parked answers, with status 202, a Request that the user has to answer first
// and whose sender preferred not to block. Message is a line of the relay's own.
type Parked struct {
	Status   string    `json:"status"` // "pending"
	PromptID string    `json:"promptId"`
	Message  string    `json:"message"`
	Deadline time.Time `json:"deadline"`
}

// GitParams are the params of git.push, git.fetch and git.pull.
type GitParams struct {
	Path     string   `json:"path,omitempty"`
	Remote   string   `json:"remote,omitempty"`
	Branch   string   `json:"branch,omitempty"`
	OID      string   `json:"oid,omitempty"`
	Args     []string `json:"args,omitempty"`
	HostOnly bool     `json:"hostOnly,omitempty"`
	As       string   `json:"as,omitempty"`
	Force    bool     `json:"force,omitempty"`
}

// Event is one thing that happened in or to a box. Seq counts per box from 1.
type Event struct {
	Seq        int64           `json:"id"`
	BoxID      string          `json:"boxId"`
	Type       string          `json:"type"`
	Source     EventSource     `json:"source"`
	ReceivedAt time.Time       `json:"receivedAt"`
	TS         string          `json:"ts,omitempty"`
	Payload    json.RawMessage `json:"payload,omitempty"`
}

// PostEvent is the body of POST /events.
type PostEvent struct {
	Type    string          `json:"type"`
	TS      string          `json:"ts,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// Health is what GET /healthz answers; on a box's channel only OK is set.
type Health struct {
	OK        bool   `json:"ok"`
	PID       int    `json:"pid,omitempty"`
	Version   string `json:"version,omitempty"`
	Boxes     int    `json:"boxes,omitempty"`
	Pending   int    `json:"pendingApprovals,omitempty"`
	Approvals string `json:"approvals,omitempty"` // "on" or "off"
	// Unasked names the boxes that the user answers for in advance.
	Unasked []core.BoxName `json:"unasked,omitempty"`
}

// RegisterBox is the body of POST /admin/register-box. The relay keeps only
// the token's SHA-256.
type RegisterBox struct {
	Box   core.Box `json:"box"`
	Token string   `json:"token"`
	// Bridge is set for a box that the relay must go to, since no socket of this
	// machine reaches it.
	Bridge *BridgeLink `json:"bridge,omitempty"`
}

// BridgeLink is how a relay reaches the bridge of a box. BridgeToken is the
// host's key to it, which the box's own tools do not have; PreviewToken is what
// the provider's proxy on the way wants to see, if anything.
type BridgeLink struct {
	PreviewURL   string `json:"previewUrl"`
	PreviewToken string `json:"previewToken,omitempty"`
	BridgeToken  string `json:"bridgeToken"`
}

// ForgetBox is the body of POST /admin/forget-box.
type ForgetBox struct {
	BoxID string `json:"boxId"`
}

// RegisteredBox is one row of GET /admin/registry.
type RegisteredBox struct {
	Box          core.Box  `json:"box"`
	RegisteredAt time.Time `json:"registeredAt"`
}

// ApprovalState is where an approval stands.
type ApprovalState string

// The states of an approval. From Pending it moves once to one of the next
// four; from Approved to Executing when the request runs, and then to its end.
const (
	Pending   ApprovalState = "pending"
	Approved  ApprovalState = "approved"
	Denied    ApprovalState = "denied"
	Expired   ApprovalState = "expired"
	Cancelled ApprovalState = "cancelled"
	Executing ApprovalState = "executing"
	Done      ApprovalState = "done"
	Failed    ApprovalState = "failed"
)

// Approval is a durable record of one exact request that waits for a person.
type Approval struct {
	ID      string        `json:"id"`
	BoxID   string        `json:"boxId"`
	BoxName core.BoxName  `json:"boxName"`
	Method  string        `json:"method"`
	Digest  string        `json:"digest"`
	State   ApprovalState `json:"state"`
	// Message is one line of ours, computed from facts.
	Message string `json:"message"`
	// Push is set on pushes, Land on commits that wait to land, Action on the rest.
	Push      *PushApproval   `json:"push,omitempty"`
	Land      *LandApproval   `json:"land,omitempty"`
	Action    *ActionApproval `json:"action,omitempty"`
	CreatedAt time.Time       `json:"createdAt"`
	Deadline  time.Time       `json:"deadline"`
	// AnsweredBy and Note record the answer; Note is the user's text, which
	// the box may read.
	AnsweredAt time.Time `json:"answeredAt,omitzero"`
	AnsweredBy string    `json:"answeredBy,omitempty"`
	Note       string    `json:"note,omitempty"`
	Result     string    `json:"result,omitempty"`
}

// PushApproval is what the host found out about a push.
type PushApproval struct {
	RepoKey   string          `json:"repoKey"`
	Project   string          `json:"project"`
	Remote    core.RemoteName `json:"remote"`
	RemoteURL string          `json:"remoteUrl"`
	Atomic    bool            `json:"atomic,omitempty"`
	Updates   []PushedRef     `json:"updates"`
}

// LandApproval is what the host found out about commits that wait to land: the
// user's branch Update.Ref would move from Update.Old, empty if it is not there,
// to Update.New.
type LandApproval struct {
	RepoKey string `json:"repoKey"`
	Project string `json:"project"`
	// Status says why it is asked: LandedHeld, LandedDiverged, or Landed where
	// the user wants to see it first.
	Status string    `json:"status"`
	Update PushedRef `json:"update"`
}

// PushedRef is one update with its facts and the decision.
type PushedRef struct {
	policy.RefUpdate
	Facts  policy.Facts `json:"facts"`
	Reason string       `json:"reason"`
}

// Answer is the body of POST /admin/prompts/answer. Digest, when given, must be
// the approval's, so that an answer never meets another request.
type Answer struct {
	ID     string `json:"id"`
	Answer string `json:"answer"` // "y" or "n"
	Digest string `json:"digest,omitempty"`
	Note   string `json:"note,omitempty"`
}

// Answered is the answer to an Answer whose request the relay carries out
// itself; pushes wait for the box that asked, and have an empty one.
type Answered struct {
	Result string `json:"result,omitempty"`
	Failed bool   `json:"failed,omitempty"`
}

// HostPush is the body of POST /admin/git/push: the user pushes what the box
// has landed. Branch defaults to the box's branch.
type HostPush struct {
	BoxID   string          `json:"boxId"`
	RepoKey string          `json:"repoKey,omitempty"`
	Branch  core.BranchName `json:"branch,omitempty"`
	Force   bool            `json:"force,omitempty"`
}

// Landing is what became of a hand-in.
type Landing struct {
	Branch core.BranchName `json:"branch"`
	Old    core.ObjectID   `json:"old,omitempty"`
	New    core.ObjectID   `json:"new"`
	// Status is one of the Landed* words; Detail is a phrase of ours.
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// Moves tells whether the user's branch moves with this outcome.
func (l Landing) Moves() bool { return l.Status == Landed || l.Status == LandedRewritten }

// Here tells whether the user has the commit after this outcome.
func (l Landing) Here() bool { return l.Moves() || l.Status == LandedUpToDate }

// The outcomes of a landing.
const (
	Landed           = "landed"
	LandedUpToDate   = "up-to-date"
	LandedRewritten  = "rewritten"   // landed; the old tip stays under old/ in the gate
	LandedDiverged   = "diverged"    // the user moved the branch: kept in the gate
	LandedCheckedOut = "checked-out" // the user has the branch checked out: kept in the gate
	LandedHeld       = "held"        // the tree check wants a person to look first
)

// AuditEntry is one link of the audit chain: Hash covers Prev and the entry.
type AuditEntry struct {
	Seq    int64           `json:"seq"`
	At     time.Time       `json:"at"`
	BoxID  string          `json:"boxId,omitempty"`
	Actor  string          `json:"actor"` // "box", "policy", "operator uid=… pid=…", "relay"
	Action string          `json:"action"`
	Detail json.RawMessage `json:"detail,omitempty"`
	Prev   string          `json:"prev"`
	Hash   string          `json:"hash"`
}

// Error is the body of every HTTP answer that is not a success.
type Error struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}
