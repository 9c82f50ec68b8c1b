package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
)

// Class names a kind of request that the user may let a program answer.
type Class string

// The classes. What belongs to none of them takes a person.
const (
	// PushBranch: new commits for a branch other than the box's own and the
	// remote's default one.
	PushBranch Class = "push-branch"
	// PushTag: a new tag.
	PushTag Class = "push-tag"
	// PushRewrite: the same as PushBranch, where commits of the branch go away.
	PushRewrite Class = "push-rewrite"
	// CopyFiles: copies between the box and the host that hold nothing secret and
	// nothing of the red list.
	CopyFiles Class = "copy"
	// Checkpoint: checkpoints that replace others or become the default.
	Checkpoint Class = "checkpoint"
	// GitHub: pull requests, comments and reruns whose text makes nobody act.
	GitHub Class = "github"
	// Integration: the same for writes to other services.
	Integration Class = "integration"
)

// Classes lists them.
var Classes = []Class{PushBranch, PushTag, PushRewrite, CopyFiles, Checkpoint, GitHub, Integration}

// classOfAction has what a program may answer at all. What opens more to the box
// (clones, tokens, the browser), approves or merges, checks out, or brings its
// settings and logins to the host is not among it.
var classOfAction = map[Action]Class{
	CopyToHost: CopyFiles, CopyFromHost: CopyFiles, DownloadWork: CopyFiles,
	CheckpointCreate: Checkpoint,
	PRCreate:         GitHub, PRComment: GitHub, PRClose: GitHub, PRReopen: GitHub, RunRerun: GitHub, APIPost: GitHub,
	IntegrationWrite: Integration,
}

// ClassOfAction is the class of a host action; ok is false for what a person must
// see: secrets, the red list, texts that make others act, and all that
// has no class.
func ClassOfAction(a Action, f ActionFacts) (class Class, ok bool) {
	if n, _ := needOf(a, f, Settings{}); n != safe && n != consent || f.Secret || f.RedList || f.Speaks {
		return "", false
	}
	class, ok = classOfAction[a]
	return class, ok
}

// ParseClass validates s; the error wraps core.ErrInvalid and lists the classes.
func ParseClass(s string) (Class, error) {
	if !slices.Contains(Classes, Class(s)) {
		return "", fmt.Errorf("class %s: %w: the classes are %v", core.Untrusted(s).Quote(), core.ErrInvalid, Classes)
	}
	return Class(s), nil
}

// ClassOf is the class of one update. ok is false for what a person must see:
// commits with findings or with changes on the red list, CI that it is the first to
// run, since that yes is kept, the default branch, any
// branch while the default one is not known, and what is never done at all.
func ClassOf(repo core.Repo, u RefUpdate, f Facts) (class Class, ok bool) {
	if n, _ := needOfPush(repo, u, f); n == person || n == never || f.CI.Unasked() {
		return "", false
	}
	switch {
	case !strings.HasPrefix(u.Ref, "refs/heads/"):
		return PushTag, true
	case !f.FastForward:
		return PushRewrite, true
	}
	return PushBranch, true
}
