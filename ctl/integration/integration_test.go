package integration

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/integrations"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]string{
		"notion whoami":                         "integration.notion.whoami",
		"linear issue.comment -- ENG-1 -b x":    "integration.linear.issue.comment ENG-1 -b x",
		"linear issue.comment ENG-1 -- -b":      "integration.linear.issue.comment ENG-1 -- -b",
		"notion api -- -- x":                    "integration.notion.api -- x",
		"jira issue.view":                       "integration.jira.issue.view", // the relay knows
		"linear":                                "",
		"":                                      "",
		"Linear api":                            "",
		"linear api.":                           "",
		"linear ..api":                          "",
		"linear.issue view":                     "",
		"-- linear api":                         "",
		"linear issue comment":                  "integration.linear.issue comment",
		"linear --help":                         "",
		"linear issue.comment/../../admin/stop": "",
	} {
		r, err := Parse(strings.Fields(line))
		if got := strings.TrimSpace(r.Method + " " + strings.Join(r.Args, " ")); got != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, ErrUsage) {
			t.Errorf("%q is %q, %v, want %q", line, got, err, want)
		}
	}
}

func TestShims(t *testing.T) {
	shims := Shims()
	for line, want := range map[string]string{
		"ntn whoami":                          "integration.notion.whoami",
		"notion api v1/users/me":              "integration.notion.api v1/users/me",
		"ntn api v1/search -d {}":             "integration.notion.search -d {}",
		"ntn search query=x":                  "integration.notion.search query=x",
		"ntn pages create --content x":        "integration.notion.page.create --content x",
		"notion pages update x":               "",
		"ntn pages trash x":                   "",
		"ntn files create":                    "",
		"ntn login":                           "",
		"ntn tokens list":                     "",
		"ntn":                                 "",
		"ntn api -X PATCH v1/pages/1":         "",
		"linear whoami":                       "integration.linear.whoami",
		"linear auth whoami":                  "integration.linear.whoami",
		"linear issue list -A":                "integration.linear.issue.list -A",
		"linear issue mine":                   "integration.linear.issue.mine",
		"linear issue view ENG-1":             "integration.linear.issue.view ENG-1",
		"linear issue query --all-teams":      "integration.linear.issue.query --all-teams",
		"linear issue create --title x":       "integration.linear.issue.create --title x",
		"linear issue update ENG-1 -t x":      "integration.linear.issue.update ENG-1 -t x",
		"linear issue comment add ENG-1 -b x": "integration.linear.issue.comment ENG-1 -b x",
		"linear team list":                    "integration.linear.team.list",
		"linear api {a}":                      "integration.linear.api {a}",
		"linear api mutation{a}":              "",
		"linear auth token":                   "",
		"linear auth login":                   "",
		"linear auth logout":                  "",
		"linear auth migrate":                 "",
		"linear auth default":                 "",
		"linear issue delete ENG-1":           "",
		"linear team create":                  "",
		"linear team delete":                  "",
		"linear issue comment":                "",
		"linear --workspace x issue list":     "",
		"linear issue view ENG-1 --web":       "",
	} {
		words := strings.Fields(line)
		s, ok := shims[words[0]]
		if !ok {
			t.Fatalf("no shim %s", words[0])
		}
		r, err := Shim(s, words[1:])
		if got := strings.TrimSpace(r.Method + " " + strings.Join(r.Args, " ")); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v, want %q", line, got, err, want)
		}
	}
}

// What the long form and a shim send, the registry knows.
func FuzzShim(f *testing.F) {
	f.Add("linear", "issue comment add ENG-1 -b x")
	f.Add("ntn", "api v1/search -d {}")
	f.Fuzz(func(t *testing.T, name, line string) {
		s, ok := Shims()[name]
		if !ok {
			return
		}
		r, err := Shim(s, strings.Fields(line))
		if err != nil {
			return
		}
		service, op, ok := integrations.ParseMethod(r.Method)
		if _, known := s.Op(op); !ok || !known || service != s.Name || !slices.Equal(r.Args, strings.Fields(line)[len(strings.Fields(line))-len(r.Args):]) {
			t.Errorf("%q is %+v", line, r)
		}
	})
}
