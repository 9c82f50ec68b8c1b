package core

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
	"time"
)

// State is what a box is doing, as its provider sees it.
type State string

// The states of a box. Unknown means that the provider could not be asked;
// Missing that it was asked and has no such box.
const (
	StateCreating State = "creating"
	StateRunning  State = "running"
	StatePaused   State = "paused"
	StateStopped  State = "stopped"
	StateMissing  State = "missing"
	StateUnknown  State = "unknown"
)

// Box is the record of one box, the truth about it on the host. It holds no
// secret: tokens live in the relay, hashed.
type Box struct {
	ID       string  `json:"id"`
	Name     BoxName `json:"name"`
	Provider string  `json:"provider"`
	// Creating is set until the box is made; a record that keeps it was left
	// by a create that did not end.
	Creating bool `json:"creating,omitempty"`
	// StoppedClean is set by a stop that saw all commits of the box in the
	// user's repositories, and cleared by the next start.
	StoppedClean bool      `json:"stoppedClean,omitempty"`
	CreatedAt    time.Time `json:"createdAt"`
	ProjectRoot  string    `json:"projectRoot"`
	ProjectIndex int       `json:"projectIndex"`

	// Repos are the user's repositories that the box works on, the project's
	// root first. A box of a plain directory has none.
	Repos []Repo `json:"gitWorktrees,omitempty"`

	// AutoApproveHostActions and AutoApproveSafeHostActions are the user's word
	// on this box about questions, as package policy takes them; nil means the
	// user's word on all boxes.
	AutoApproveHostActions     bool  `json:"autoApproveHostActions,omitempty"`
	AutoApproveSafeHostActions *bool `json:"autoApproveSafeHostActions,omitempty"`

	// Docker is set on boxes of the docker provider.
	Docker *DockerBox `json:"docker,omitempty"`

	Limits Limits `json:"resourceLimits,omitzero"`
}

// DockerBox is what the docker provider must remember to find its box again.
type DockerBox struct {
	Container string `json:"container"`
	Image     string `json:"image"`
	ImageID   string `json:"imageId"`
	Network   string `json:"network"`
	Profile   string `json:"profile"`
}

// Limits bound a box. Zero means the provider's default.
type Limits struct {
	MemoryBytes int64   `json:"memoryBytes,omitempty"`
	CPUs        float64 `json:"cpus,omitempty"`
	PIDs        int64   `json:"pidsLimit,omitempty"`
}

// Repo is one of the user's repositories as a box sees it.
type Repo struct {
	// Key identifies the repository everywhere: first 16 hex digits of SHA-256
	// over the real path of its git common directory.
	Key string `json:"key"`
	// Kind is "root" for the project itself, "nested" for a repository below it.
	Kind string `json:"kind"`
	// CommonDir and WorkTree are real paths on the host.
	CommonDir string `json:"commonDir"`
	WorkTree  string `json:"workTree"`
	// BoxPath is where the repository lies in the box.
	BoxPath BoxPath `json:"containerPath"`
	// Branch is the box's own scratch branch, fixed at create.
	Branch BranchName `json:"branch"`
	// Sanctioned is the branch that the host last put the box on; empty means Branch.
	Sanctioned BranchName `json:"sanctionedBranch,omitempty"`
	// On is the branch that the host put the box on without a right to it: its
	// pushes ask. Empty means Sanctioned, or Branch.
	On BranchName `json:"onBranch,omitempty"`
	// BaseBranch is the user's branch that the box started from, empty when
	// HEAD was detached; BaseOID is the commit.
	BaseBranch BranchName `json:"baseBranch,omitempty"`
	BaseOID    ObjectID   `json:"baseOid,omitempty"`
	// Remote is the push remote and RemoteURL its address when the box was
	// made, without user information; both empty when the repository has none.
	Remote    RemoteName `json:"remote,omitempty"`
	RemoteURL string     `json:"remoteUrl,omitempty"`
	// DefaultBranch is the remote's HEAD as far as known.
	DefaultBranch BranchName `json:"defaultBranch,omitempty"`
	// ObjectFormat is "sha1" or "sha256".
	ObjectFormat string `json:"objectFormat"`
}

// Root is the record of the project's own repository, if it has one.
func (b *Box) Root() (Repo, bool) {
	for _, r := range b.Repos {
		if r.Kind == "root" {
			return r, true
		}
	}
	return Repo{}, false
}

// Repo finds the repository with the given key.
func (b *Box) Repo(key string) (Repo, bool) {
	for _, r := range b.Repos {
		if r.Key == key {
			return r, true
		}
	}
	return Repo{}, false
}

// RepoAt finds the repository that a path in the box belongs to: the one with
// the deepest BoxPath at or above it. The path is cleaned first; empty means
// the workspace, and a path outside every repository belongs to none.
func (b *Box) RepoAt(dir string) (Repo, bool) {
	if dir == "" {
		dir = string(WorkspacePath)
	}
	dir = path.Clean("/" + dir)
	var best Repo
	found := false
	for _, r := range b.Repos {
		at := string(r.BoxPath)
		if (dir == at || strings.HasPrefix(dir, at+"/")) && len(at) >= len(best.BoxPath) {
			best, found = r, true
		}
	}
	return best, found
}

// NewBoxID makes a fresh id: "b" and eight random hex digits.
func NewBoxID() string {
	var raw [4]byte
	rand.Read(raw[:]) //nolint:errcheck // crypto/rand.Read never fails
	return "b" + hex.EncodeToString(raw[:])
}

var idPattern = pattern(`^b[0-9a-f]{8}$`)

// ValidBoxID tells whether s has the form that NewBoxID makes. Ids become
// folder names, so everything that takes one from outside checks it first.
func ValidBoxID(s string) bool { return idPattern().MatchString(s) }

var keyPattern = pattern(`^[0-9a-f]{16}$`)

// ValidRepoKey tells whether s has the form of Repo.Key.
func ValidRepoKey(s string) bool { return keyPattern().MatchString(s) }

// NewToken makes a box's bearer token: 32 random bytes in hex.
func NewToken() string {
	var raw [32]byte
	rand.Read(raw[:]) //nolint:errcheck // crypto/rand.Read never fails
	return hex.EncodeToString(raw[:])
}

// BoxName is a box's name: lower-case letters, digits and dashes, 1 to 40 bytes,
// neither first nor last a dash. It becomes part of a container name, a host
// name and a branch.
type BoxName string

var (
	namePattern = pattern(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)
	nameJunk    = pattern(`[^a-z0-9]+`)
)

// reservedNames would shadow hosts that the product itself uses.
var reservedNames = map[string]bool{"agentbox": true, "hub": true, "localhost": true}

// ParseBoxName validates s. The error wraps ErrInvalid and says the rule.
func ParseBoxName(s string) (BoxName, error) {
	if !namePattern().MatchString(s) {
		return "", fmt.Errorf("box name %s: %w: use 1 to 40 lower-case letters, digits and dashes, without a dash at either end", Untrusted(s).Quote(), ErrInvalid)
	}
	if reservedNames[s] {
		return "", fmt.Errorf("box name %q: %w: the name is reserved", s, ErrInvalid)
	}
	return BoxName(s), nil
}

// BoxNameFor derives a name from a folder's name; "box" where nothing of it
// can be used.
func BoxNameFor(folder string) BoxName {
	s := strings.Trim(nameJunk().ReplaceAllString(strings.ToLower(folder), "-"), "-")
	s = strings.Trim(s[:min(40, len(s))], "-")
	if name, err := ParseBoxName(s); err == nil {
		return name
	}
	return "box"
}

// Numbered is the n-th variant of a name: the name itself for n < 2, else
// "name-n", shortened so that it stays valid.
func (n BoxName) Numbered(i int) BoxName {
	if i < 2 {
		return n
	}
	suffix := fmt.Sprintf("-%d", i)
	return BoxName(strings.TrimRight(string(n[:min(len(n), 40-len(suffix))]), "-") + suffix)
}

// Branch is the scratch branch that a new box of this name gets.
func (n BoxName) Branch() BranchName { return BranchName(BranchPrefix + string(n)) }

// UnmarshalJSON refuses a name that ParseBoxName refuses; "" stays zero.
func (n *BoxName) UnmarshalJSON(data []byte) error { return unmarshalVia(data, n, ParseBoxName) }

// BoxPath is an absolute, clean path inside a box. It is never a host path.
type BoxPath string

// WorkspacePath is where a box's project lies.
const WorkspacePath BoxPath = "/workspace"

// ParseBoxPath validates s: absolute, clean, no NUL or line break, at most 4096 bytes.
func ParseBoxPath(s string) (BoxPath, error) {
	if !strings.HasPrefix(s, "/") || path.Clean(s) != s || strings.ContainsAny(s, "\x00\n\r") || len(s) > 4096 {
		return "", fmt.Errorf("path in a box %s: %w: it must be absolute and clean", Untrusted(s).Quote(), ErrInvalid)
	}
	return BoxPath(s), nil
}

// UnmarshalJSON refuses a path that ParseBoxPath refuses; "" stays zero.
func (p *BoxPath) UnmarshalJSON(data []byte) error { return unmarshalVia(data, p, ParseBoxPath) }
