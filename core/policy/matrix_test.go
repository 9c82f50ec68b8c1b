package policy

import (
	"fmt"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/redlist"
)

// What comes of a need under each setting: a allowed, q asked, d denied. The
// first eight are with a person to ask, the others without one; in each eight
// the order is nothing set, safe, all, all and safe, and the same four again
// with approvals switched off.
const (
	noQuestion = "aaaaaaaa" + "aaaaaaaa"
	inSafe     = "qaaaaaaa" + "daaaaaaa"
	aYes       = "qqaaaaaa" + "ddaaaaaa"
	aPerson    = "qqqqqqqq" + "dddddddd"
	offDenies  = "qqqqdddd" + "dddddddd"
	refused    = "dddddddd" + "dddddddd"
)

// settingsOf is the setting of one place in such a string.
func settingsOf(i int) Settings {
	return Settings{Safe: i&1 != 0, All: i&2 != 0, Off: i&4 != 0, Nobody: i&8 != 0}
}

// verdicts writes the same string of a decision.
func verdicts(t *testing.T, decide func(Settings) Decision) string {
	t.Helper()
	var out []byte
	for i := range 16 {
		d := decide(settingsOf(i))
		if d.Reason == "" {
			t.Errorf("%+v: no reason, so none is written down", settingsOf(i))
		}
		out = append(out, "aqd"[d.Verdict])
	}
	return string(out)
}

// TestMatrixOfActions holds what each host action needs. Where the box runs is
// no fact of it: the same holds for boxes on Docker, in a cloud and of a plane.
func TestMatrixOfActions(t *testing.T) {
	no := ActionFacts{}
	for _, c := range []struct {
		action Action
		facts  ActionFacts
		set    Settings
		want   string
	}{
		{GitFetch, no, Settings{}, noQuestion},
		{GitPull, no, Settings{}, noQuestion},
		{GitClone, ActionFacts{Known: true}, Settings{}, noQuestion},
		{GitClone, no, Settings{}, aYes},
		{GitRead, ActionFacts{Known: true}, Settings{}, noQuestion},
		{GitRead, no, Settings{}, aYes},
		{GitLease, ActionFacts{Own: true}, Settings{}, noQuestion},
		{GitLease, no, Settings{}, aYes},
		{CopyToHost, ActionFacts{Contained: true}, Settings{}, inSafe},
		{CopyToHost, no, Settings{}, aYes},
		{CopyToHost, ActionFacts{Contained: true, RedList: true}, Settings{}, aPerson},
		{CopyToHost, ActionFacts{Contained: true, Secret: true}, Settings{}, aPerson},
		{CopyToHost, ActionFacts{RedList: true}, Settings{}, aPerson},
		{CopyFromHost, ActionFacts{Contained: true}, Settings{}, inSafe},
		{CopyFromHost, ActionFacts{Contained: true, RedList: true}, Settings{}, inSafe},
		{CopyFromHost, no, Settings{}, aYes},
		{CopyFromHost, ActionFacts{Contained: true, Secret: true}, Settings{}, aPerson},
		{DownloadWork, ActionFacts{Contained: true}, Settings{}, inSafe},
		{DownloadWork, no, Settings{}, aYes},
		{DownloadWork, ActionFacts{Contained: true, RedList: true}, Settings{}, aPerson},
		{DownloadEnv, no, Settings{}, aYes},
		{DownloadEnv, ActionFacts{Secret: true}, Settings{}, aPerson},
		{DownloadConfig, no, Settings{}, aYes},
		{DownloadConfig, ActionFacts{RedList: true}, Settings{}, aPerson},
		{DownloadClaude, no, Settings{}, aYes},
		{CheckpointCreate, no, Settings{}, inSafe},
		{CheckpointCreate, ActionFacts{Replaces: true}, Settings{}, aYes},
		{BrowserOpen, no, Settings{}, aYes},
		{BrowserOpen, ActionFacts{Local: true}, Settings{}, refused},
		{PRView, no, Settings{}, noQuestion},
		{PRList, no, Settings{}, noQuestion},
		{PRDiff, no, Settings{}, noQuestion},
		{PRChecks, no, Settings{}, noQuestion},
		{PRCreate, ActionFacts{Own: true}, Settings{}, inSafe},
		{PRCreate, no, Settings{}, aYes},
		{PRCreate, ActionFacts{Own: true, Speaks: true}, Settings{}, aYes},
		{PRCreate, ActionFacts{Own: true, Secret: true}, Settings{}, aPerson},
		{PRComment, no, Settings{}, inSafe},
		{PRComment, ActionFacts{Speaks: true}, Settings{}, aYes},
		{PRComment, ActionFacts{Speaks: true, Secret: true}, Settings{}, aPerson},
		{PRReview, no, Settings{}, aYes},
		{PRClose, no, Settings{}, aYes},
		{PRReopen, no, Settings{}, aYes},
		{PRMerge, no, Settings{}, offDenies},
		{PRMerge, no, Settings{ForceMerge: true}, aYes},
		{PRCheckout, no, Settings{}, refused},
		{PRCheckout, no, Settings{Checkout: true}, aYes},
		{RunList, no, Settings{}, noQuestion},
		{RunView, no, Settings{}, noQuestion},
		{RunRerun, ActionFacts{Own: true}, Settings{}, inSafe},
		{RunRerun, no, Settings{}, aYes},
		{APIGet, no, Settings{}, noQuestion},
		{APIPost, no, Settings{}, inSafe},
		{APIPost, ActionFacts{Speaks: true}, Settings{}, aYes},
		{IntegrationRead, no, Settings{}, noQuestion},
		{IntegrationWrite, ActionFacts{Known: true}, Settings{}, inSafe},
		{IntegrationWrite, no, Settings{}, aYes},
		{IntegrationWrite, ActionFacts{Known: true, Speaks: true}, Settings{}, aYes},
		{IntegrationWrite, ActionFacts{Known: true, Secret: true}, Settings{}, aPerson},
		{"an action of tomorrow", no, Settings{}, aYes},
	} {
		t.Run(fmt.Sprintf("%s %+v", c.action, c.facts), func(t *testing.T) {
			got := verdicts(t, func(s Settings) Decision {
				s.ForceMerge, s.Checkout = c.set.ForceMerge, c.set.Checkout
				return Decide(c.action, c.facts, s)
			})
			if got != c.want {
				t.Errorf("got %s; want %s", got, c.want)
			}
			if NeedsPerson(c.action, c.facts, c.set) != (c.want == aPerson || c.want == offDenies) {
				t.Error("it is not told whether a program may answer")
			}
		})
	}
}

// TestMatrixOfPushes holds the same for updates of a push.
func TestMatrixOfPushes(t *testing.T) {
	repo := core.Repo{Branch: "agentbox/web", DefaultBranch: "main", Sanctioned: "feature/x"}
	unknown := core.Repo{Branch: "agentbox/web"}
	to := func(ref string) RefUpdate { return RefUpdate{ref, oidB, oidA} }
	red := func(c redlist.Class) Facts {
		return Facts{FastForward: true, RedList: []redlist.Group{{Class: c}}}
	}
	ff, found := Facts{FastForward: true}, Facts{FastForward: true, Findings: []Finding{{Rule: "a repository in a folder"}}}
	for _, c := range []struct {
		name string
		repo core.Repo
		u    RefUpdate
		f    Facts
		want string
	}{
		{"own branch", repo, to("refs/heads/agentbox/web"), ff, noQuestion},
		{"own branch, rewritten", repo, to("refs/heads/agentbox/web"), Facts{}, noQuestion},
		{"own branch, red list", repo, to("refs/heads/agentbox/web"), red(redlist.Hook), noQuestion},
		{"own branch, workflows of CI", repo, to("refs/heads/agentbox/web"), red(redlist.Workflow), aPerson},
		{"own branch, CI that nobody agreed to", repo, to("refs/heads/agentbox/web"), Facts{CI: CI{Digest: "d"}}, aYes},
		{"own branch, that CI and the red list", repo, to("refs/heads/agentbox/web"), Facts{CI: CI{Digest: "d"}, RedList: red(redlist.Hook).RedList}, aPerson},
		{"own branch, CI as agreed", repo, to("refs/heads/agentbox/web"), Facts{CI: CI{Digest: "d", Agreed: true}}, noQuestion},
		{"own branch, a finding", repo, to("refs/heads/agentbox/web"), found, aPerson},
		{"chosen branch", repo, to("refs/heads/feature/x"), ff, inSafe},
		{"chosen branch, red list", repo, to("refs/heads/feature/x"), red(redlist.Hook), aPerson},
		{"chosen branch, a finding", repo, to("refs/heads/feature/x"), found, aPerson},
		{"chosen branch, rewritten", repo, to("refs/heads/feature/x"), Facts{}, aYes},
		{"another branch", repo, to("refs/heads/topic"), ff, aYes},
		{"another branch, rewritten", repo, to("refs/heads/topic"), Facts{}, aYes},
		{"another branch, red list", repo, to("refs/heads/topic"), red(redlist.AgentConfig), aPerson},
		{"another box's branch", repo, to("refs/heads/agentbox/other"), ff, aYes},
		{"default branch", repo, to("refs/heads/main"), ff, aPerson},
		{"default branch, rewritten", repo, to("refs/heads/main"), Facts{}, aPerson},
		{"a branch, the default one unknown", unknown, to("refs/heads/topic"), ff, aPerson},
		{"new tag", repo, RefUpdate{"refs/tags/v1", zero, oidA}, ff, aYes},
		{"new tag, red list", repo, RefUpdate{"refs/tags/v1", zero, oidA}, red(redlist.Hook), aPerson},
		{"moved tag", repo, to("refs/tags/v1"), ff, refused},
		{"delete", repo, RefUpdate{"refs/heads/agentbox/web", oidB, zero}, ff, refused},
		{"note", repo, to("refs/notes/x"), ff, refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := verdicts(t, func(s Settings) Decision { return Push(c.repo, c.u, c.f, s) }); got != c.want {
				t.Errorf("got %s; want %s", got, c.want)
			}
			if _, ok := ClassOf(c.repo, c.u, c.f); ok == (c.want == aPerson || c.want == refused || c.f.CI.Unasked()) {
				t.Error("it is not told whether a program may answer")
			}
		})
	}
}
