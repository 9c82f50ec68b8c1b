package policy

import (
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
)

var (
	zero = core.ZeroID(40)
	oidA = core.ObjectID(strings.Repeat("a", 40))
	oidB = core.ObjectID(strings.Repeat("b", 40))
)

func TestPushDecisions(t *testing.T) {
	repo := core.Repo{Branch: "agentbox/web", DefaultBranch: "main"}
	sanctioned := repo
	sanctioned.Sanctioned = "feature/x"
	onMain := repo
	onMain.Sanctioned = "main"
	ff := Facts{FastForward: true}
	for _, c := range []struct {
		name string
		repo core.Repo
		u    RefUpdate
		f    Facts
		want Verdict
	}{
		{"own branch, new", repo, RefUpdate{"refs/heads/agentbox/web", zero, oidA}, ff, Allow},
		{"own branch, rewritten", repo, RefUpdate{"refs/heads/agentbox/web", oidB, oidA}, Facts{}, Allow},
		{"another box's branch", repo, RefUpdate{"refs/heads/agentbox/other", zero, oidA}, ff, Ask},
		{"own branch in other case", repo, RefUpdate{"refs/heads/agentbox/WEB", zero, oidA}, ff, Ask},
		{"default branch", repo, RefUpdate{"refs/heads/main", oidB, oidA}, ff, Ask},
		{"default branch, rewritten", onMain, RefUpdate{"refs/heads/main", oidB, oidA}, Facts{}, Ask},
		{"default branch that the host chose", onMain, RefUpdate{"refs/heads/main", oidB, oidA}, ff, Allow},
		{"branch that the host chose", sanctioned, RefUpdate{"refs/heads/feature/x", oidB, oidA}, ff, Allow},
		{"own branch beside the one that the host chose", sanctioned, RefUpdate{"refs/heads/agentbox/web", oidB, oidA}, Facts{}, Allow},
		{"default branch beside the one that the host chose", sanctioned, RefUpdate{"refs/heads/main", oidB, oidA}, ff, Ask},
		{"branch that the host chose, in other case", sanctioned, RefUpdate{"refs/heads/Feature/x", oidB, oidA}, ff, Ask},
		{"branch that the host chose, with a finding", sanctioned, RefUpdate{"refs/heads/feature/x", oidB, oidA}, Facts{FastForward: true, Findings: []Finding{{Rule: "a repository in a folder"}}}, Ask},
		{"tag of the name of the branch that the host chose", sanctioned, RefUpdate{"refs/tags/feature/x", zero, oidA}, ff, Ask},
		{"delete of the branch that the host chose", sanctioned, RefUpdate{"refs/heads/feature/x", oidB, zero}, ff, Deny},
		{"branch that the host chose, rewritten", sanctioned, RefUpdate{"refs/heads/feature/x", oidB, oidA}, Facts{}, Ask},
		{"some other branch", repo, RefUpdate{"refs/heads/feature/y", zero, oidA}, ff, Ask},
		{"new tag", repo, RefUpdate{"refs/tags/v1", zero, oidA}, ff, Ask},
		{"moved tag", repo, RefUpdate{"refs/tags/v1", oidB, oidA}, ff, Deny},
		{"delete of own branch", repo, RefUpdate{"refs/heads/agentbox/web", oidB, zero}, ff, Deny},
		{"delete of main", repo, RefUpdate{"refs/heads/main", oidB, zero}, ff, Deny},
		{"note", repo, RefUpdate{"refs/notes/x", zero, oidA}, ff, Deny},
		{"no ref", repo, RefUpdate{"main", zero, oidA}, ff, Deny},
		{"option as branch", repo, RefUpdate{"refs/heads/--exec", zero, oidA}, ff, Deny},
		{"own branch with a finding", repo, RefUpdate{"refs/heads/agentbox/web", zero, oidA}, Facts{FastForward: true, Findings: []Finding{{Rule: "a repository in a folder"}}}, Ask},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Push(c.repo, c.u, c.f, Settings{Safe: true})
			if got.Verdict != c.want {
				t.Errorf("Push = %v (%s); want %v", got.Verdict, got.Reason, c.want)
			}
			if got.Reason == "" {
				t.Error("no reason given, so none is written down")
			}
		})
	}
}

func TestDenyBeatsAskBeatsAllow(t *testing.T) {
	allow, ask, deny := Decision{Allow, "a"}, Decision{Ask, "b"}, Decision{Deny, "c"}
	for _, pair := range [][3]Decision{{allow, ask, ask}, {ask, allow, ask}, {ask, deny, deny}, {deny, ask, deny}, {deny, allow, deny}} {
		if got := pair[0].Stronger(pair[1]); got != pair[2] {
			t.Errorf("%v.Stronger(%v) = %v; want %v", pair[0], pair[1], got, pair[2])
		}
	}
}

func TestEmptySanctionNeverMatches(t *testing.T) {
	if IsSanctioned(core.Repo{}, "") || IsSanctioned(core.Repo{Branch: "agentbox/a"}, "agentbox/b") {
		t.Error("an empty or foreign branch counts as sanctioned")
	}
}
