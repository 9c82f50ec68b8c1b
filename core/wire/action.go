package wire

import (
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
)

// ActionApproval is what the host found out about a host action that is neither
// a push nor a landing.
type ActionApproval struct {
	// Facts are ours, the most important first.
	Facts []ActionFact `json:"facts,omitempty"`
	// Texts are what the box wants done or said, whole.
	Texts []ActionText `json:"texts,omitempty"`
	// Class is what the user must have named for a program to answer, absent
	// where only a person may. The relay sets it.
	Class policy.Class `json:"class,omitempty"`
}

// ActionFact is one line: what it is about, and what the host found. Value holds
// text of a box only as core.Untrusted quotes it.
type ActionFact struct {
	Label string `json:"label"`
	Value string `json:"value"`
}

// ActionText is text of the box, with a label of ours.
type ActionText struct {
	Label string         `json:"label"`
	Text  core.Untrusted `json:"text"`
}

// Act is the body of POST /admin/act: the user does a host action for a box.
type Act struct {
	BoxID string `json:"boxId"`
	Request
}
