package integrations

import "strings"

// linear speaks to Linear through @schpet/linear-cli, version 2. Its options are
// those of that program's reference, without what opens something on the host
// (--web, --app), reads or writes files, or chooses another account
// (--workspace). Never here: anything of auth but whoami, deleting issues,
// making and deleting teams.
var linear = Service{
	Name: "linear", Program: "linear", Shims: []string{"linear"},
	Detect: Detect{
		Version: []string{"--version"}, Auth: []string{"auth", "whoami"},
		Install: "npm install -g @schpet/linear-cli", Login: "linear auth login",
	},
	Scope: Scope{
		Key: "team", What: "the key of a team, such as ENG",
		Valid: func(s string) bool { return teamKey(s) == nil },
		Holds: inTeam,
	},
	Ops: []Op{
		{Name: "whoami", Summary: "who the host is logged in as", Argv: []string{"auth", "whoami"}, Verbs: [][]string{{"whoami"}}},
		{Name: "issue.list", Summary: "list your issues", Argv: []string{"issue", "list"}, Fixed: []string{"--no-pager"}, Flags: append(mineFlags, listFlags...)},
		{Name: "issue.mine", Summary: "list your issues", Argv: []string{"issue", "mine"}, Fixed: []string{"--no-pager"}, Flags: mineFlags},
		{Name: "issue.view", Summary: "show an issue", Argv: []string{"issue", "view"}, Fixed: []string{"--no-pager", "--no-download"}, Words: []Word{issueWord}, Flags: []Flag{
			{Name: "--json", Short: "-j", Switch: true}, {Name: "--no-comments", Switch: true}, noPager, {Name: "--no-download", Switch: true, Drop: true},
		}},
		{Name: "issue.query", Summary: "find issues", Argv: []string{"issue", "query"}, Fixed: []string{"--no-pager"}, Flags: queryFlags},
		{Name: "team.list", Summary: "list teams", Argv: []string{"team", "list"}},
		{Name: "api", Summary: "ask by GraphQL, queries only", Argv: []string{"api"}, Words: []Word{{Name: "query", Value: onlyReads}}, Flags: []Flag{
			{Name: "--variable", Many: true, Value: variable},
			{Name: "--variables-json"},
			{Name: "--paginate", Switch: true},
			{Name: "--silent", Switch: true},
			{Name: "--help", Short: "-h", Switch: true},
		}},
		{
			Name: "issue.create", Summary: "make an issue", Write: true, Argv: []string{"issue", "create"}, Fixed: []string{"--no-interactive"}, Default: ownTeam,
			Flags: append([]Flag{{Name: "--no-use-default-template", Switch: true}, {Name: "--no-interactive", Switch: true, Drop: true}}, issueFlags...),
		},
		{
			Name: "issue.update", Summary: "change an issue", Write: true, Argv: []string{"issue", "update"}, Words: []Word{placed(issueWord)},
			Flags: append([]Flag{{Name: "--add-label", Many: true}, {Name: "--remove-label", Many: true}, {Name: "--unassign", Switch: true}, {Name: "--clear-cycle", Switch: true}}, issueFlags...),
		},
		{
			Name: "issue.comment", Summary: "comment on an issue", Write: true, Argv: []string{"issue", "comment", "add"}, Words: []Word{placed(issueWord)},
			// The comment that is answered may be of another issue: it is in no scope.
			Flags: []Flag{{Name: "--body", Short: "-b", Text: true}, {Name: "--parent", Short: "-p", Value: uuid, Place: true}},
		},
	},
}

var (
	teamKey   = matches(`^[A-Za-z][A-Za-z0-9]{0,9}$`, "a team's key, such as ENG")
	issueID   = matches(`^([A-Za-z][A-Za-z0-9]{0,9}-[0-9]{1,9}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$`, "an issue, such as ENG-123")
	uuid      = matches(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, "an id")
	whole     = matches(`^[0-9]{1,6}$`, "a number")
	date      = matches(`^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]{5,16}(Z|[+-][0-9]{2}:?[0-9]{2})?)?$`, "a date, such as 2026-03-01")
	state     = matches(`^(triage|backlog|unstarted|started|completed|canceled)$`, "triage, backlog, unstarted, started, completed or canceled")
	sorting   = matches(`^(manual|priority)$`, "manual or priority")
	pair      = matches(`^[A-Za-z_][A-Za-z0-9_]*=`, "key=value")
	noPager   = Flag{Name: "--no-pager", Switch: true, Drop: true}
	issueWord = Word{Name: "the issue", Needed: true, Value: issueID}
)

// placed is a word that names where is written.
func placed(w Word) Word {
	w.Place = true
	return w
}

// variable refuses values that the program would read from a file.
func variable(v string) error {
	if err := pair(v); err != nil {
		return err
	}
	if strings.Contains(v, "=@") {
		return refuse("its value would be read from a file of the host")
	}
	return nil
}

// inTeam: an issue's number begins with its team's key.
func inTeam(team, destination string) bool {
	key, _, isIssue := strings.Cut(destination, "-")
	return strings.EqualFold(key, team) && (!isIssue || issueID(destination) == nil)
}

func ownTeam(c *Call, team string) {
	if _, given := c.Option("--team"); !given {
		c.set("--team", team)
	}
}

var filterFlags = []Flag{
	{Name: "--state", Short: "-s", Many: true, Value: state},
	{Name: "--all-states", Switch: true},
	{Name: "--sort", Value: sorting},
	{Name: "--project"},
	{Name: "--project-label"},
	{Name: "--cycle"},
	{Name: "--milestone"},
	{Name: "--label", Short: "-l", Many: true},
	{Name: "--limit", Value: whole},
	{Name: "--created-after", Value: date},
	{Name: "--updated-after", Value: date},
	noPager,
}

var mineFlags = append([]Flag{{Name: "--team", Value: teamKey}}, filterFlags...)

// listFlags are those of the first version's list, which the second refuses in
// its own words.
var listFlags = []Flag{{Name: "--assignee"}, {Name: "--all-assignees", Short: "-A", Switch: true}, {Name: "--unassigned", Short: "-U", Switch: true}}

var queryFlags = append([]Flag{
	{Name: "--search"},
	{Name: "--search-comments", Switch: true},
	{Name: "--team", Many: true, Value: teamKey},
	{Name: "--all-teams", Switch: true},
	{Name: "--assignee"},
	{Name: "--all-assignees", Short: "-A", Switch: true},
	{Name: "--unassigned", Short: "-U", Switch: true},
	{Name: "--include-archived", Switch: true},
	{Name: "--json", Short: "-j", Switch: true},
}, filterFlags...)

var issueFlags = []Flag{
	{Name: "--title", Short: "-t", Text: true},
	{Name: "--description", Short: "-d", Text: true},
	{Name: "--team", Value: teamKey, Place: true},
	{Name: "--parent", Value: issueID, Place: true},
	{Name: "--assignee", Short: "-a"},
	{Name: "--due-date", Value: date},
	{Name: "--priority", Short: "-p", Value: whole},
	{Name: "--estimate", Value: whole},
	{Name: "--label", Short: "-l", Many: true},
	{Name: "--project"},
	{Name: "--state", Short: "-s"},
	{Name: "--milestone"},
	{Name: "--cycle"},
}
