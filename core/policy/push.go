// Package policy decides, from facts that the host computed, what a box may do.
// Every function is pure: the same facts give the same decision everywhere, on
// the laptop, in a worker and on the plane.
//
// Invariant: deny beats ask beats allow, and what no rule names is asked.
package policy

import (
	"fmt"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/redlist"
)

// Verdict orders what may happen to a request; the larger one wins.
type Verdict int

// The verdicts, weakest first.
const (
	Allow Verdict = iota
	Ask
	Deny
)

func (v Verdict) String() string {
	return [...]string{"allow", "ask", "deny"}[v]
}

// Decision is a verdict with its reason, a phrase of ours that holds no text
// of a box beyond validated names.
type Decision struct {
	Verdict Verdict
	Reason  string
}

// Stronger is the decision that wins of the two; of two alike, the first that
// says why.
func (d Decision) Stronger(o Decision) Decision {
	if o.Verdict > d.Verdict || o.Verdict == d.Verdict && d.Reason == "" {
		return o
	}
	return d
}

// RefUpdate is one command of a push: move Ref from Old to New.
type RefUpdate struct {
	Ref string        `json:"ref"`
	Old core.ObjectID `json:"old"`
	New core.ObjectID `json:"new"`
}

// Facts are what the host found out about one update, in the box's gate.
type Facts struct {
	// FastForward tells that Old is an ancestor of New, or that Old is zero.
	FastForward bool `json:"fastForward"`
	// Commits and Files count what New has and Old (or, for a new ref, the
	// remote's known branches) lacks.
	Commits int `json:"commits"`
	Files   int `json:"files"`
	// Findings name what must be looked at before the commit goes anywhere.
	Findings []Finding `json:"findings,omitempty"`
	// RedList is what the update changes of the red list: as a whole, and in each
	// commit that neither the remote nor the user has yet. It is shown first and
	// has no part in Push's decision; a policy that asks for some class of it finds
	// here each that is hit.
	RedList []redlist.Group `json:"redList,omitempty"`
	// Subjects are the first lines of the newest commits, box text.
	Subjects []core.Untrusted `json:"subjects,omitempty"`
}

// Finding is one reason to hold a commit: a rule of ours and the path that it hit.
type Finding struct {
	Rule string         `json:"rule"`
	Path core.Untrusted `json:"path"`
}

// CheckRef refuses an update that is never done, whatever it holds: a delete,
// or a ref that is no branch and no tag. It needs no facts, so it runs before
// a byte of the pack is read.
func CheckRef(u RefUpdate) Decision {
	kind, err := classify(u.Ref)
	switch {
	case err != nil:
		return Decision{Deny, err.Error()}
	case u.New.IsZero():
		return Decision{Deny, "a box may not delete refs; ask the user to delete it"}
	case kind == kindTag && !u.Old.IsZero():
		return Decision{Deny, "a box may not move an existing tag"}
	}
	return Decision{Allow, ""}
}

// Push decides one update of a push to the repository's remote.
func Push(repo core.Repo, u RefUpdate, f Facts) Decision {
	d := CheckRef(u)
	if d.Verdict == Deny {
		return d
	}
	if len(f.Findings) > 0 {
		d = d.Stronger(Decision{Ask, fmt.Sprintf("the commits hold %s", f.Findings[0].Rule)})
	}
	kind, _ := classify(u.Ref)
	if kind == kindTag {
		return d.Stronger(Decision{Ask, "a new tag"})
	}
	branch := core.BranchName(strings.TrimPrefix(u.Ref, "refs/heads/"))
	switch {
	case branch == repo.Branch:
		return d.Stronger(Decision{Allow, "the box's own branch"})
	case !f.FastForward:
		return d.Stronger(Decision{Ask, "not a fast-forward of " + string(branch)})
	case branch == repo.Sanctioned:
		return d.Stronger(Decision{Allow, "the branch that the host put the box on"})
	case branch == repo.DefaultBranch:
		return d.Stronger(Decision{Ask, string(branch) + " is the remote's default branch"})
	default:
		return d.Stronger(Decision{Ask, string(branch) + " is not the box's branch"})
	}
}

// IsSanctioned tells whether pushes to the branch go through unasked as far as
// the name alone decides: the box's own branch and the one that the host chose.
func IsSanctioned(repo core.Repo, branch core.BranchName) bool {
	return branch != "" && (branch == repo.Branch || branch == repo.Sanctioned)
}

type refKind int

const (
	kindBranch refKind = iota
	kindTag
)

func classify(ref string) (refKind, error) {
	if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
		_, err := core.ParseBranchName(name)
		return kindBranch, err
	}
	if name, ok := strings.CutPrefix(ref, "refs/tags/"); ok {
		_, err := core.ParseTagName(name)
		return kindTag, err
	}
	return 0, fmt.Errorf("ref %s: a box may push branches and tags only", core.Untrusted(ref).Quote())
}
