// Package view is what commands show of the things they list, as declared
// fields.
package view

import (
	"cmp"
	"fmt"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
)

// Box is a box as list, status and create show it.
type Box struct {
	ID       string          `json:"id"`
	Name     core.BoxName    `json:"name"`
	Index    int             `json:"index"`
	State    core.State      `json:"state"`
	Provider string          `json:"provider"`
	Project  string          `json:"project"`
	Branch   core.BranchName `json:"branch,omitempty"`
	// On is the branch of the user's that they put the box on, "" while that is
	// Branch, its own.
	On        core.BranchName `json:"onBranch,omitempty"`
	Base      core.BranchName `json:"baseBranch,omitempty"`
	BaseOID   core.ObjectID   `json:"baseOid,omitempty"`
	Remote    string          `json:"remote,omitempty"`
	CreatedAt time.Time       `json:"createdAt"`
	Container string          `json:"container,omitempty"`
	Image     string          `json:"image,omitempty"`
	Network   string          `json:"network,omitempty"`
	Profile   string          `json:"profile,omitempty"`
	Limits    core.Limits     `json:"limits"`
	// AutoApprove and AutoApproveSafe are the user's word on questions of this
	// box, from when it was made; absent where nothing was set.
	AutoApprove     bool  `json:"autoApproveHostActions,omitempty"`
	AutoApproveSafe *bool `json:"autoApproveSafeHostActions,omitempty"`
	// Waiting counts the approvals that wait for the user; absent while no
	// relay answers.
	Waiting *int `json:"waiting,omitempty"`
	// Behind counts the branches with commits that were handed in and have not
	// landed; absent while no relay answers.
	Behind *int `json:"behind,omitempty"`
}

// OfBox is the view of a record in the state that its provider reports.
func OfBox(b core.Box, s core.State) Box {
	v := Box{
		ID: b.ID, Name: b.Name, Index: b.ProjectIndex, State: s, Provider: b.Provider,
		Project: b.ProjectRoot, CreatedAt: b.CreatedAt, Limits: b.Limits,
		AutoApprove: b.AutoApproveHostActions, AutoApproveSafe: b.AutoApproveSafeHostActions,
	}
	if repo, ok := b.Root(); ok {
		v.Branch, v.On, v.Base, v.BaseOID, v.Remote = repo.Branch, cmp.Or(repo.On, repo.Sanctioned), repo.BaseBranch, repo.BaseOID, repo.RemoteURL
	}
	if d := b.Docker; d != nil {
		v.Container, v.Image, v.Network, v.Profile = d.Container, d.Image, d.Network, d.Profile
	}
	return v
}

// Questions says, for people, where the user has set what is asked about the
// box, "" where it is as usual.
func (b Box) Questions() string {
	switch {
	case b.AutoApprove:
		return "asked only about what takes a person"
	case b.AutoApproveSafe != nil && !*b.AutoApproveSafe:
		return "asked also about what stays in the project"
	}
	return ""
}

// WorksOn is the branch that the box works on, for people.
func (b Box) WorksOn() string {
	if b.On == "" {
		return string(b.Branch)
	}
	return fmt.Sprintf("%s (its own is %s)", b.On, b.Branch)
}

// CountWaiting sets Waiting of each box from what waits.
func CountWaiting(boxes []Box, waiting []wire.Approval) {
	for i := range boxes {
		n := 0
		for _, a := range waiting {
			if a.BoxID == boxes[i].ID && a.State == wire.Pending {
				n++
			}
		}
		boxes[i].Waiting = &n
	}
}
