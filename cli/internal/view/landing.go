package view

import (
	"fmt"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
)

// Problem is one thing that is wrong, and what to do about it.
type Problem struct {
	What string `json:"what"`
	Next string `json:"next"`
}

// OfLanding puts commits that have not landed into words.
func OfLanding(box core.Box, l wire.WaitingLanding) Problem {
	where := fmt.Sprintf("commit %s of %s has not landed", l.New.Short(), l.Branch)
	again := fmt.Sprintf("agentbox land %s", box.Name)
	show := fmt.Sprintf("%s %s, which shows it and asks", again, l.Branch)
	switch l.Status {
	case wire.LandedCheckedOut:
		return Problem{where + ": you have the branch checked out", "switch to another branch, then: " + again}
	case wire.LandedDiverged:
		return Problem{where + ": " + l.Detail, fmt.Sprintf("%s; or beside yours: %s %s --as %s-2", show, again, l.Branch, l.Branch)}
	case wire.LandedHeld:
		return Problem{where + ": " + l.Detail, show}
	default:
		return Problem{where + " yet", again}
	}
}

// CountBehind sets Behind of each box from what has not landed.
func CountBehind(boxes []Box, landings []wire.WaitingLanding) {
	for i := range boxes {
		n := 0
		for _, l := range landings {
			if l.BoxID == boxes[i].ID {
				n++
			}
		}
		boxes[i].Behind = &n
	}
}
