package forge

import (
	"slices"

	"github.com/madarco/agentbox/core/policy"
)

// flag is one option of an operation.
type flag struct {
	long, short string
	// value refuses what the option can't have; nil is a switch without one.
	value func(string) error
	many  bool // it may stand more than once
	// body: what is said in the user's name. acts: it makes others act.
	body, acts bool
	// ours: it is understood here and not passed on.
	ours bool
}

// target is what the one argument of an operation names.
type target int

const (
	nothing    target = iota
	branchsPR         // a pull request; that of the box's branch if none is named
	namedPR           // a pull request, always named
	namedRun          // a run, always named
	maybeRun          // a run, or none where a job is named
	apiAddress        // an address of the API, which comes apart from the arguments
)

// op is one operation of gh.
type op struct {
	name  string // behind "gh." in the name of the method
	kind  policy.Action
	write bool
	takes target
	flags []flag
	// says is how the text is handed over: after this, or by stdin if it is
	// bodyFile. Empty means that nothing is said.
	says string
	// needsText: it is nothing without one.
	needsText bool
}

const bodyFile = "--body-file=-"

// ops are all operations, with the flags that gh may be called with.
var ops = []op{
	{name: "pr.view", kind: policy.PRView, takes: branchsPR, flags: join(output, template, switches("--comments", "-c"))},
	{name: "pr.list", kind: policy.PRList, flags: join(output, template, []flag{
		{long: "--state", short: "-s", value: oneOf("open", "closed", "merged", "all")},
		{long: "--head", short: "-H", value: branch},
		{long: "--base", short: "-B", value: branch},
		{long: "--author", short: "-A", value: search},
		{long: "--label", short: "-l", value: search, many: true},
		{long: "--limit", short: "-L", value: number},
		{long: "--search", short: "-S", value: search},
	}, switches("--draft", "-d"))},
	{name: "pr.diff", kind: policy.PRDiff, takes: branchsPR, flags: join(
		[]flag{{long: "--color", value: oneOf("always", "never", "auto")}}, switches("--name-only", "", "--patch", ""))},
	{name: "pr.checks", kind: policy.PRChecks, takes: branchsPR, flags: join(output, switches("--required", ""))},
	{name: "pr.create", kind: policy.PRCreate, write: true, says: bodyFile, flags: join([]flag{
		{long: "--title", short: "-t", value: line},
		body("--body", "-b"),
		{long: "--base", short: "-B", value: branch},
		{long: "--head", short: "-H", value: branch},
		{long: "--fill", short: "-f", ours: true},
		{long: "--fill-first", ours: true},
		{long: "--label", short: "-l", value: line, many: true, acts: true},
		{long: "--assignee", short: "-a", value: line, many: true, acts: true},
		{long: "--reviewer", short: "-r", value: line, many: true, acts: true},
		{long: "--milestone", short: "-m", value: line},
	}, switches("--draft", "-d"))},
	{name: "pr.comment", kind: policy.PRComment, write: true, takes: branchsPR, says: bodyFile, needsText: true, flags: []flag{body("--body", "-b")}},
	{name: "pr.review", kind: policy.PRReview, write: true, takes: branchsPR, says: bodyFile, flags: join(
		[]flag{body("--body", "-b")}, switches("--approve", "-a", "--request-changes", "-r", "--comment", "-c"))},
	{name: "pr.merge", kind: policy.PRMerge, write: true, takes: branchsPR, flags: join(
		switches("--squash", "-s", "--merge", "-m", "--rebase", "-r", "--delete-branch", "-d", "--auto", ""))},
	{name: "pr.close", kind: policy.PRClose, write: true, takes: namedPR, says: "--comment=", flags: join(
		[]flag{body("--comment", "-c")}, switches("--delete-branch", "-d"))},
	{name: "pr.reopen", kind: policy.PRReopen, write: true, takes: namedPR, says: "--comment=", flags: []flag{body("--comment", "-c")}},
	{name: "run.list", kind: policy.RunList, flags: join(output, []flag{
		{long: "--limit", short: "-L", value: number},
		{long: "--workflow", short: "-w", value: line},
		{long: "--branch", short: "-b", value: branch},
		{long: "--status", short: "-s", value: word},
		{long: "--user", short: "-u", value: line},
	})},
	{name: "run.view", kind: policy.RunView, takes: maybeRun, flags: join(output, []flag{
		{long: "--job", short: "-j", value: number}, {long: "--attempt", short: "-a", value: number},
	}, switches("--log", "", "--log-failed", "", "--exit-status", ""))},
	{name: "run.rerun", kind: policy.RunRerun, write: true, takes: maybeRun, flags: join(
		[]flag{{long: "--job", short: "-j", value: number}}, switches("--failed", "", "--debug", "-d"))},
	{name: "api", kind: policy.APIGet, takes: apiAddress, says: "--raw-field=body=", flags: join([]flag{
		{long: "--method", short: "-X", value: oneOf("GET", "POST")},
		{long: "--raw-field", short: "-f", value: field, many: true},
		{long: "--field", short: "-F", value: field, many: true},
		{long: "--header", short: "-H", value: accept, many: true},
		{long: "--jq", short: "-q", value: jq},
	}, switches("--paginate", "", "--slurp", ""))},
}

var (
	output   = []flag{{long: "--json", value: fields}, {long: "--jq", short: "-q", value: jq}}
	template = []flag{{long: "--template", short: "-t", value: text}}
)

func body(long, short string) flag { return flag{long: long, short: short, value: text, body: true} }

// switches are flags without a value, each with its short form or "".
func switches(names ...string) []flag {
	var all []flag
	for pair := range slices.Chunk(names, 2) {
		all = append(all, flag{long: pair[0], short: pair[1]})
	}
	return all
}

func join(parts ...[]flag) []flag { return slices.Concat(parts...) }

// findOp finds an operation by its name.
func findOp(name string) (op, bool) {
	i := slices.IndexFunc(ops, func(o op) bool { return o.name == name })
	if i < 0 {
		return op{}, false
	}
	return ops[i], true
}

// flag finds an option by its long or short form.
func (o op) flag(name string) (flag, bool) {
	i := slices.IndexFunc(o.flags, func(f flag) bool { return name != "" && (f.long == name || f.short == name) })
	if i < 0 {
		return flag{}, false
	}
	return o.flags[i], true
}
