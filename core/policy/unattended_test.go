package policy

import (
	"errors"
	"testing"

	"github.com/madarco/agentbox/core"
)

func TestWhatAProgramMayAnswer(t *testing.T) {
	const a, b = core.ObjectID("1111111111111111111111111111111111111111"), core.ObjectID("2222222222222222222222222222222222222222")
	known := core.Repo{Branch: "agentbox/x", DefaultBranch: "main"}
	forward := Facts{FastForward: true}
	cases := []struct {
		what  string
		repo  core.Repo
		u     RefUpdate
		f     Facts
		class Class
		ok    bool
	}{
		{"new commits for a branch", known, RefUpdate{"refs/heads/topic", a, b}, forward, PushBranch, true},
		{"a rewrite of a branch", known, RefUpdate{"refs/heads/topic", a, b}, Facts{}, PushRewrite, true},
		{"a new tag", known, RefUpdate{"refs/tags/v1", core.ZeroID(40), b}, forward, PushTag, true},
		{"the default branch takes a person", known, RefUpdate{"refs/heads/main", a, b}, forward, "", false},
		{"so does any branch while the default one is unknown", core.Repo{}, RefUpdate{"refs/heads/topic", a, b}, forward, "", false},
		{"so do findings", known, RefUpdate{"refs/heads/topic", a, b}, Facts{FastForward: true, Findings: []Finding{{Rule: "a workflow"}}}, "", false},
		{"and findings under a tag", known, RefUpdate{"refs/tags/v1", core.ZeroID(40), b}, Facts{Findings: []Finding{{Rule: "a workflow"}}}, "", false},
		{"a delete has no class", known, RefUpdate{"refs/heads/topic", a, core.ZeroID(40)}, forward, "", false},
		{"nor has a foreign ref", known, RefUpdate{"refs/notes/x", a, b}, forward, "", false},
	}
	for _, tc := range cases {
		t.Run(tc.what, func(t *testing.T) {
			if class, ok := ClassOf(tc.repo, tc.u, tc.f); class != tc.class || ok != tc.ok {
				t.Errorf("got %q, %v; want %q, %v", class, ok, tc.class, tc.ok)
			}
		})
	}
}

func TestParseClass(t *testing.T) {
	for _, c := range Classes {
		if got, err := ParseClass(string(c)); err != nil || got != c {
			t.Errorf("%s: %v, %v", c, got, err)
		}
	}
	for _, s := range []string{"", "push-default", "all", "*"} {
		if _, err := ParseClass(s); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestWhichActionsAProgramMayAnswer(t *testing.T) {
	for _, tc := range []struct {
		a     Action
		f     ActionFacts
		class Class
	}{
		{CopyToHost, ActionFacts{}, CopyFiles},
		{CopyToHost, ActionFacts{Contained: true, Secret: true}, ""},
		{CopyToHost, ActionFacts{Contained: true, RedList: true}, ""},
		{CopyFromHost, ActionFacts{}, CopyFiles},
		{CopyFromHost, ActionFacts{RedList: true}, ""},
		{DownloadWork, ActionFacts{}, CopyFiles},
		{DownloadEnv, ActionFacts{}, ""},
		{DownloadConfig, ActionFacts{}, ""},
		{DownloadClaude, ActionFacts{}, ""},
		{CheckpointCreate, ActionFacts{Replaces: true}, Checkpoint},
		{PRCreate, ActionFacts{}, GitHub},
		{PRCreate, ActionFacts{Own: true, Speaks: true}, ""},
		{PRComment, ActionFacts{}, GitHub},
		{PRComment, ActionFacts{Speaks: true}, ""},
		{PRClose, ActionFacts{}, GitHub},
		{PRReopen, ActionFacts{}, GitHub},
		{RunRerun, ActionFacts{}, GitHub},
		{APIPost, ActionFacts{}, GitHub},
		{PRReview, ActionFacts{}, ""},
		{PRMerge, ActionFacts{Own: true}, ""},
		{PRCheckout, ActionFacts{}, ""},
		{IntegrationWrite, ActionFacts{}, Integration},
		{IntegrationWrite, ActionFacts{Known: true, Speaks: true}, ""},
		{GitClone, ActionFacts{}, ""},
		{GitRead, ActionFacts{}, ""},
		{GitLease, ActionFacts{}, ""},
		{BrowserOpen, ActionFacts{}, ""},
		{"made.up", ActionFacts{}, ""},
	} {
		if class, ok := ClassOfAction(tc.a, tc.f); class != tc.class || ok != (tc.class != "") {
			t.Errorf("%s with %+v: got %q, %v; want %q", tc.a, tc.f, class, ok, tc.class)
		}
	}
}
