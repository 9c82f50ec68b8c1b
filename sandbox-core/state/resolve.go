package state

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/madarco/agentbox/core"
)

// RefFailure is why a box reference names no single box.
type RefFailure string

// The failures of Resolve.
const (
	RefNone      RefFailure = "no-boxes"  // nothing was named and the project has no box
	RefSeveral   RefFailure = "several"   // nothing was named and the project has more than one
	RefBadIndex  RefFailure = "bad-index" // the project has no box of this number
	RefAmbiguous RefFailure = "ambiguous" // more than one id begins so
	RefNotFound  RefFailure = "not-found"
)

// RefError is a reference that names no single box.
type RefError struct {
	Failure     RefFailure
	Ref         string
	ProjectRoot string
	// Candidates are the boxes that the user may have meant: those of the
	// project, those that share a prefix, or those with a name like it.
	Candidates []core.Box
}

func (e *RefError) Error() string {
	ref := core.Untrusted(e.Ref).Quote()
	switch e.Failure {
	case RefNone:
		return "no box in project " + e.ProjectRoot
	case RefSeveral:
		return fmt.Sprintf("%d boxes in project %s", len(e.Candidates), e.ProjectRoot)
	case RefBadIndex:
		return fmt.Sprintf("no box number %s in project %s", e.Ref, e.ProjectRoot)
	case RefAmbiguous:
		return fmt.Sprintf("%s begins the ids of %d boxes", ref, len(e.Candidates))
	default:
		return "no box " + ref
	}
}

// isIndex tells whether a reference is a number, which is never an id or name.
func isIndex(ref string) bool {
	return ref != "" && ref[0] != '0' && strings.Trim(ref, "0123456789") == ""
}

// Resolve finds the box that ref means for a user who stands in a project. An
// empty ref is the project's only box; digits are an index of this project
// alone; anything else is an id, a name, a container, or the start of one id,
// in this order: a name beats a prefix, so that a box is never taken for
// another whose id happens to begin with its name. Errors are *RefError.
func Resolve(boxes []core.Box, ref, projectRoot string) (core.Box, error) {
	here := (&State{Boxes: boxes}).Project(projectRoot)
	fail := func(why RefFailure, candidates []core.Box) (core.Box, error) {
		return core.Box{}, &RefError{why, ref, projectRoot, candidates}
	}
	switch {
	case ref == "" && len(here) == 1:
		return here[0], nil
	case ref == "" && len(here) == 0:
		return fail(RefNone, nil)
	case ref == "":
		return fail(RefSeveral, here)
	case isIndex(ref):
		n, err := strconv.Atoi(ref)
		for _, b := range here {
			if err == nil && b.ProjectIndex == n {
				return b, nil
			}
		}
		return fail(RefBadIndex, here)
	}
	for _, is := range []func(core.Box) bool{
		func(b core.Box) bool { return b.ID == ref },
		func(b core.Box) bool { return string(b.Name) == ref },
		func(b core.Box) bool { return b.Docker != nil && b.Docker.Container == ref },
	} {
		if i := slices.IndexFunc(boxes, is); i >= 0 {
			return boxes[i], nil
		}
	}
	begun := filter(boxes, func(b core.Box) bool { return strings.HasPrefix(b.ID, ref) })
	switch len(begun) {
	case 1:
		return begun[0], nil
	case 0:
		return fail(RefNotFound, filter(boxes, func(b core.Box) bool { return near(string(b.Name), ref) }))
	default:
		return fail(RefAmbiguous, begun)
	}
}

func filter(boxes []core.Box, keep func(core.Box) bool) []core.Box {
	var out []core.Box
	for _, b := range boxes {
		if keep(b) {
			out = append(out, b)
		}
	}
	return out
}

// near tells whether two words differ by at most two letters, or one begins
// with the other, so that one may be a slip for the other.
func near(name, ref string) bool {
	ref = strings.ToLower(ref)
	if len(ref) > 80 {
		return false
	}
	if len(ref) >= 2 && strings.HasPrefix(name, ref) {
		return true
	}
	return core.EditDistance(name, ref) <= min(2, len(name)-1)
}
