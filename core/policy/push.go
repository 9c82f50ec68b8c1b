// Package policy decides, from facts that the host computed, what a box may do.
// Every function is pure: the same facts give the same decision everywhere, on
// the laptop, in a worker and on the plane.
//
// Invariant: deny beats ask beats allow, and what no rule names is asked.
package policy

import (
	"fmt"
	"slices"
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
	// commit that neither the remote nor the user has yet. It is shown first.
	RedList []redlist.Group `json:"redList,omitempty"`
	// Subjects are the first lines of the newest commits, box text.
	Subjects []core.Untrusted `json:"subjects,omitempty"`
	// CI is what a push of the box's own branch would run at the remote.
	CI CI `json:"ci,omitzero"`
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
func Push(repo core.Repo, u RefUpdate, f Facts, s Settings) Decision {
	return s.decide(needOfPush(repo, u, f))
}

// needOfPush is what an update needs. Where it needs anything at all, findings,
// the default branch and the red list take a person. The box's own branch needs
// nothing, unless CI would run what it changes, or CI that the user has not
// agreed to would run on it.
func needOfPush(repo core.Repo, u RefUpdate, f Facts) (need, string) {
	if d := CheckRef(u); d.Verdict == Deny {
		return never, d.Reason
	}
	if len(f.Findings) > 0 {
		return person, fmt.Sprintf("the commits hold %s", f.Findings[0].Rule)
	}
	asked := consent
	if len(f.RedList) > 0 {
		asked = person
	}
	name, isBranch := strings.CutPrefix(u.Ref, "refs/heads/")
	branch := core.BranchName(name)
	switch {
	case !isBranch:
		return asked, "a new tag"
	case branch == repo.Branch && f.changes(redlist.Workflow):
		return person, "it changes " + redlist.Workflow.What()
	case branch == repo.Branch && f.CI.Unasked():
		return asked, "the remote's CI would run on it"
	case branch == repo.Branch:
		return free, "the box's own branch"
	case f.FastForward && branch == repo.Sanctioned && asked == person:
		return person, "it changes what can make something run on the host"
	case f.FastForward && branch == repo.Sanctioned:
		return safe, "the branch that the host put the box on"
	case repo.DefaultBranch == "" || branch == repo.DefaultBranch:
		asked = person
	}
	switch {
	case !f.FastForward:
		return asked, "not a fast-forward of " + name
	case branch == repo.DefaultBranch:
		return asked, name + " is the remote's default branch"
	}
	return asked, name + " is not the box's branch"
}

// changes tells whether the update hits a class of the red list.
func (f Facts) changes(class redlist.Class) bool {
	return slices.ContainsFunc(f.RedList, func(g redlist.Group) bool { return g.Class == class })
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
