package wire

import (
	"encoding/json"
	"time"

	"github.com/madarco/agentbox/core"
)

// FederatedBox is the body of PUT /federation/boxes/{id}: what a plane may know
// of a laptop's box. It names no token and no path of the laptop.
type FederatedBox struct {
	Name         core.BoxName    `json:"name"`
	Provider     string          `json:"provider"`
	CreatedAt    time.Time       `json:"createdAt"`
	ProjectIndex int             `json:"projectIndex,omitempty"`
	Repos        []FederatedRepo `json:"repos,omitempty"`
}

// FederatedRepo is a repository of such a box.
type FederatedRepo struct {
	Key        string          `json:"key"`
	Kind       string          `json:"kind"`
	BoxPath    core.BoxPath    `json:"boxPath"`
	Branch     core.BranchName `json:"branch"`
	Sanctioned core.BranchName `json:"sanctionedBranch,omitempty"`
	Remote     core.RemoteName `json:"remote,omitempty"`
	RemoteURL  string          `json:"remoteUrl,omitempty"`
}

// FederatedEvents is the body of POST /federation/boxes/{id}/events. After is the
// plane's number of the last event of the box that the laptop knows to be there,
// absent or null when it knows none: the events go to the end. Those that are
// after it already are not added again, so a lost answer doubles nothing.
type FederatedEvents struct {
	After  *int64      `json:"after,omitempty"`
	Events []PostEvent `json:"events"`
}

// FederatedLast answers it: the plane's number of the last event of the box.
type FederatedLast struct {
	Last int64 `json:"last"`
}

// FederatedStatus is the body of PUT /federation/boxes/{id}/status.
type FederatedStatus struct {
	Snapshot json.RawMessage `json:"snapshot"`
}

// FederatedPending is the body of PUT /federation/pending: all that waits for the
// user of a laptop. An empty list says that nothing does.
type FederatedPending struct {
	Pending []PendingFacts `json:"pending"`
}

// PendingFacts is what a plane may know of a question: our words and times, and
// nothing that a box wrote.
type PendingFacts struct {
	ID        string       `json:"id"`
	BoxID     string       `json:"boxId"`
	BoxName   core.BoxName `json:"boxName"`
	Method    string       `json:"method"`
	Message   string       `json:"message"`
	CreatedAt time.Time    `json:"createdAt"`
	Deadline  time.Time    `json:"deadline"`
}
