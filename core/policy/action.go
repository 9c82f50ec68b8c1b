package policy

// Action names a kind of host action, as its RPC method is called.
type Action string

// The host actions beside pushing and landing, which have facts of their own.
const (
	GitFetch         Action = "git.fetch"
	GitPull          Action = "git.pull"
	GitClone         Action = "git.clone"
	GitRead          Action = "git.read"
	GitLease         Action = "git.lease-token"
	CopyToHost       Action = "cp.toHost"
	CopyFromHost     Action = "cp.fromHost"
	DownloadWork     Action = "download.workspace"
	DownloadEnv      Action = "download.env"
	DownloadConfig   Action = "download.config"
	DownloadClaude   Action = "download.claude"
	CheckpointCreate Action = "checkpoint.create"
	BrowserOpen      Action = "browser.open"
	PRView           Action = "gh.pr.view"
	PRList           Action = "gh.pr.list"
	PRDiff           Action = "gh.pr.diff"
	PRChecks         Action = "gh.pr.checks"
	PRCreate         Action = "gh.pr.create"
	PRComment        Action = "gh.pr.comment"
	PRReview         Action = "gh.pr.review"
	PRClose          Action = "gh.pr.close"
	PRReopen         Action = "gh.pr.reopen"
	PRMerge          Action = "gh.pr.merge"
	PRCheckout       Action = "gh.pr.checkout"
	RunList          Action = "gh.run.list"
	RunView          Action = "gh.run.view"
	RunRerun         Action = "gh.run.rerun"
	APIGet           Action = "gh.api.get"
	APIPost          Action = "gh.api.post"
	IntegrationRead  Action = "integration.read"
	IntegrationWrite Action = "integration.write"
)

// ActionFacts are what the host found out about a host action. A fact that does
// not belong to the action is left zero, which is the side that asks.
type ActionFacts struct {
	// Contained: every host path lies in the project, links resolved.
	Contained bool `json:"contained,omitempty"`
	// Secret: something of it looks secret, by name or content.
	Secret bool `json:"secret,omitempty"`
	// RedList: it would change what can make something run on the host later.
	RedList bool `json:"redList,omitempty"`
	// Own: it is about the box's own branch, or a run or checkpoint of its own.
	Own bool `json:"own,omitempty"`
	// Known: the user has named the target: a recorded remote, a destination in
	// the scope that the user set, a repository that was agreed to.
	Known bool `json:"known,omitempty"`
	// Speaks: a text in the user's name holds what makes others act or what we
	// put into the box: a command line, a mention, a secret.
	Speaks bool `json:"speaks,omitempty"`
	// Replaces: something that exists is replaced, or a default is set.
	Replaces bool `json:"replaces,omitempty"`
	// Local: the address is one of this machine or a private network.
	Local bool `json:"local,omitempty"`
}

// Settings are what the user or the organisation has set. The zero value asks
// about everything that can be asked about.
type Settings struct {
	// Safe answers for the safe subset: what stays in the project and on the
	// box's branch (box.autoApproveSafeHostActions, on by default).
	Safe bool
	// All answers for all that need not be a person's (box.autoApproveHostActions).
	All bool
	// Off is the same for all boxes (AGENTBOX_PROMPT=off).
	Off bool
	// ForceMerge lets Off and All answer for merges too (AGENTBOX_GH_FORCE=1).
	ForceMerge bool
	// Checkout lets pull requests be checked out in the user's repository
	// (AGENTBOX_GH_PR_CHECKOUT=allow).
	Checkout bool
	// Nobody can be asked: what would be asked is denied.
	Nobody bool
}

// need is what an action needs before it is done.
type need int

const (
	free    need = iota // nothing
	safe                // the safe subset
	consent             // somebody's yes, or the user's switch
	person              // a person's yes, whatever the switches say
	never
)

// Decide decides a host action. The reason says for the audit why something is
// allowed unasked, or why it is asked about.
func Decide(a Action, f ActionFacts, s Settings) Decision {
	return s.decide(needOf(a, f, s))
}

// Person decides what takes a person's yes, whatever the switches say.
func (s Settings) Person(why string) Decision { return s.decide(person, why) }

// decide is how the settings answer a need, of actions and of pushes alike.
func (s Settings) decide(n need, why string) Decision {
	switch {
	case n == free:
		return Decision{Allow, why}
	case n == never:
		return Decision{Deny, why}
	case n == safe && s.Safe:
		return Decision{Allow, "safe: " + why}
	case n != person && s.All:
		return Decision{Allow, "the user answers for this box: " + why}
	case n != person && s.Off:
		return Decision{Allow, "approvals are off: " + why}
	case s.Nobody:
		return Decision{Deny, "nobody can be asked: " + why}
	}
	return Decision{Ask, why}
}

// NeedsPerson tells whether no program may answer for the action.
func NeedsPerson(a Action, f ActionFacts, s Settings) bool {
	n, _ := needOf(a, f, s)
	return n == person
}

// needOf is what the action needs by the matrix; what looks secret, or is on
// the red list, takes a person wherever anything is needed at all. Copies into
// the box change nothing that the host runs.
func needOf(a Action, f ActionFacts, s Settings) (need, string) {
	n, why := matrix(a, f, s)
	switch {
	case n != safe && n != consent:
		return n, why
	case f.Secret:
		return person, "it looks secret"
	case f.RedList && a != CopyFromHost:
		return person, "it changes what can make something run on the host"
	}
	return n, why
}

// matrix is the whole of it, a line for each action.
func matrix(a Action, f ActionFacts, s Settings) (need, string) {
	switch a {
	case GitFetch, GitPull, PRView, PRList, PRDiff, PRChecks, RunList, RunView, APIGet, IntegrationRead:
		return free, "it only reads"
	case GitClone, GitRead:
		return either(f.Known, free, "a repository that the user knows", "a repository that the user has not named")
	case GitLease:
		return either(f.Own, free, "a token for the box's own branch", "a token that can push to any branch")
	case CopyToHost, CopyFromHost, DownloadWork:
		return copied(a, f)
	case DownloadEnv, DownloadConfig, DownloadClaude:
		return consent, "it leaves the project"
	case CheckpointCreate:
		return either(!f.Replaces, safe, "a checkpoint of the box", "a checkpoint that replaces another or becomes the default")
	case BrowserOpen:
		return either(!f.Local, consent, "a page in the user's browser", "a page of this machine or its network", never)
	case PRCreate:
		return either(f.Own && !f.Speaks, safe, "a pull request of the box's branch", spoken(f, "a pull request of another branch"))
	case PRComment, APIPost:
		return either(!f.Speaks, safe, "a comment", spoken(f, ""))
	case PRReview, PRClose, PRReopen:
		return consent, "it speaks for the user about a pull request"
	case PRMerge:
		return merge(s)
	case PRCheckout:
		return either(s.Checkout, consent, "it changes the user's work tree", "checking out pull requests is off: AGENTBOX_GH_PR_CHECKOUT=allow allows it", never)
	case RunRerun:
		return either(f.Own, safe, "a run of the box's branch", "a run of another branch")
	case IntegrationWrite:
		return either(f.Known && !f.Speaks, safe, "a destination in the user's scope", spoken(f, "a destination outside the user's scope"))
	}
	return consent, "an action that no rule names"
}

// either is the first need when ok, else consent or what is given.
func either(ok bool, yes need, why, otherwise string, no ...need) (need, string) {
	switch {
	case ok:
		return yes, why
	case len(no) > 0:
		return no[0], otherwise
	}
	return consent, otherwise
}

func copied(a Action, f ActionFacts) (need, string) {
	if !f.Contained {
		return consent, "it leaves the project"
	}
	return safe, map[Action]string{
		CopyToHost: "contained copy to host", CopyFromHost: "contained copy from host", DownloadWork: "contained download",
	}[a]
}

func merge(s Settings) (need, string) {
	const why = "a merge"
	switch {
	case s.ForceMerge:
		return consent, why
	case s.Off:
		return never, "a merge takes a person; AGENTBOX_GH_FORCE=1 lets it through while approvals are off"
	}
	return person, why
}

func spoken(f ActionFacts, otherwise string) string {
	if f.Speaks {
		return "its text holds a command, a mention or a secret"
	}
	return otherwise
}
