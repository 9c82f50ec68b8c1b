package relay

import (
	"context"
	"errors"
	"io"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
)

// Errors of a Gate that callers branch on.
var (
	// ErrRejected: what the box sent is malformed, over a bound, or refused by
	// git's own checks. Its text is for the box to read.
	ErrRejected = errors.New("rejected")
	// ErrRemote: the remote could not be reached or refused. The text comes
	// from the remote, so it is quoted before it is shown.
	ErrRemote = errors.New("remote")
	// ErrBusy: another git holds a lock in the user's repository.
	ErrBusy = errors.New("another git is at work in the user's repository, or was killed and left a lock")
	// ErrNoRemote: the repository has no remote to push to.
	ErrNoRemote = errors.New("the repository has no remote")
)

// Gates opens the gates of boxes. Implementations are safe for concurrent use.
type Gates interface {
	// Gate is the box's gate of the repository; it is made anew, from the
	// user's own branch of the box, when it is missing.
	Gate(ctx context.Context, box core.Box, repo core.Repo) (Gate, error)
}

// Gate is the host-owned repository through which every commit of one box
// passes. Nothing in it was written by the box directly.
type Gate interface {
	// Refs lists what the box sees when it is about to push (seed's view of
	// the remote, landing refs) or fetch (the same and the user's base).
	Refs(ctx context.Context, forPush bool) (Refs, error)

	// Refresh fetches from the remote into the seed with the user's own
	// credentials, and brings the user's base branch up to date in the gate.
	Refresh(ctx context.Context) error

	// Import reads a pack (nil means that none was sent), checks it and takes it
	// in, so that every New of updates is whole in the gate and kept under a ref of
	// the gate's own.
	Import(ctx context.Context, pack io.Reader, updates []policy.RefUpdate) error

	// Facts looks at an imported update. Findings of the tree check are facts.
	Facts(ctx context.Context, u policy.RefUpdate) (policy.Facts, error)

	// Land moves the user's branch to an imported commit. Their repository gets
	// what the tip reaches, and no other object of the box's. What does not land
	// is kept. The error wraps ErrBusy when it may work in a moment.
	Land(ctx context.Context, req LandRequest) (wire.Landing, error)

	// Look tells what Land would do with a hand-in, and does nothing.
	Look(ctx context.Context, branch core.BranchName, tip core.ObjectID) (wire.Landing, error)

	// Kept is what was handed in and has not landed, each as Look sees it now.
	Kept(ctx context.Context) ([]wire.Landing, error)

	// RemoteURL is where a push goes now; it differs from the recorded one
	// when the user changed the remote.
	RemoteURL(ctx context.Context) (string, error)

	// Push sends imported commits to the remote. started is called with the
	// child's process id before git may talk to the remote; when it fails
	// nothing is sent.
	Push(ctx context.Context, req PushRequest, started func(pid int) error) (PushResult, error)

	// Serve answers the body of a git-upload-pack request (protocol 0, 1 or 2)
	// from the gate. ls-refs of protocol 2 is not among them: Refs answers that.
	Serve(ctx context.Context, protocol string, body io.Reader, out io.Writer) error

	// ObjectFormat is "sha1" or "sha256".
	ObjectFormat() string
}

// Refs is an advertisement.
type Refs struct {
	List []Ref
	// Have are tips that the gate holds beyond List; a pusher need not send
	// what they reach.
	Have []core.ObjectID
	// Head is what HEAD points to, empty if unknown.
	Head string
	// Shallow are the boundary commits of a shallow repository.
	Shallow []core.ObjectID
}

// Ref is one advertised ref; Peeled is set on annotated tags.
type Ref struct {
	Name   string
	OID    core.ObjectID
	Peeled core.ObjectID
}

// LandRequest is a branch of the user's and the commit that it should move to.
type LandRequest struct {
	Branch core.BranchName
	Tip    core.ObjectID
	// Agreed tells that a person was shown what the tip holds, and that the
	// branch moves from Old to it, and said yes. Old is empty for a branch that
	// was not there.
	Agreed bool
	Old    core.ObjectID
}

// PushRequest is what was decided: exactly these updates, each leased on the
// old value that was shown.
type PushRequest struct {
	URL     string
	Updates []policy.RefUpdate
	Atomic  bool
}

// PushResult tells what the remote said, ref by ref.
type PushResult struct {
	Refs []PushedRef
	// Output is what the remote and git printed, the remote's text.
	Output core.Untrusted
}

// PushedRef is the outcome of one update. Status is git's porcelain flag: ' '
// fast-forward, '+' forced, '*' new, '=' up to date, '!' rejected. Detail is
// the remote's text.
type PushedRef struct {
	Ref    string
	Status byte
	Detail core.Untrusted
}
