package forge

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
)

// shop's work tree is gone, which no call of gh minds.
var shop = core.Repo{
	Kind: "root", BoxPath: core.WorkspacePath, WorkTree: "/nowhere", Branch: "agentbox/one", Remote: "origin",
	RemoteURL: "git@github.com:o/r.git", DefaultBranch: "main",
}

func TestParseRepository(t *testing.T) {
	for remote, want := range map[string]string{
		"git@github.com:o/r.git":                "github.com/o/r",
		"github.com:o/r":                        "github.com/o/r",
		"https://github.com/o/r":                "github.com/o/r",
		"https://github.com/o/r.git/":           "github.com/o/r",
		"https://u:secret@GitHub.com/o/r.git":   "github.com/o/r",
		"ssh://git@github.com/o/r.git":          "github.com/o/r",
		"ssh://git@ssh.github.com:443/o/r.git":  "github.com/o/r",
		"git@ghe.x:team/svc.git":                "ghe.x/team/svc",
		"https://127.0.0.1:8443/o/r.git":        "127.0.0.1:8443/o/r",
		"ssh://git@ghe.x:2222/o/r":              "ghe.x/o/r",
		"":                                      "",
		"not a url":                             "",
		"/srv/origin.git":                       "",
		"file:///srv/o/r":                       "",
		"ext::sh -c id":                         "",
		"https://github.com/o":                  "",
		"https://github.com/o/r/x":              "",
		"https://github.com/o/..":               "",
		"https://github.com/-o/r":               "",
		"https://github.com/o/r?x=/y":           "github.com/o/r",
		"git@github.com:o/r\n/x":                "",
		"git@-x:o/r":                            "",
		"http://github.com/o/r":                 "",
		"https://github.com/o/r%2f..%2fx":       "",
		"git@github.com:o/--repo=x":             "",
		"ssh://git@github.com/o/r.git#fragment": "github.com/o/r",
	} {
		got, err := ParseRepository(remote)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q is %v, %v; want %q", remote, got, err, want)
		}
	}
}

func read(method, endpoint string, args ...string) (*call, error) {
	o, _ := findOp(strings.TrimPrefix(method, prefix))
	return understand(o, shop, wire.ForgeParams{Args: args, Endpoint: endpoint})
}

// TestArguments has a row for what each operation takes, in every spelling: what
// the box says, what gh is called with, and what it reads.
func TestArguments(t *testing.T) {
	for _, row := range []struct {
		op, args, argv, stdin string
	}{
		{"pr.view", "", "pr|view|--repo=github.com/o/r|agentbox/one", ""},
		{"pr.view", "7|--json|number,title|-q|.title|-t|{{.}}|-c", "pr|view|--repo=github.com/o/r|--json=number,title|--jq=.title|--template={{.}}|--comments|7", ""},
		{"pr.view", "https://github.com/O/R/pull/12", "pr|view|--repo=github.com/o/r|12", ""},
		{"pr.list", "--json=number|--jq=.[]|--template=x|-sall|-H=a/b|-B|main|-A@me|-lbug|--label=two|-L5|-S|is:open fix|-d", "pr|list|--repo=github.com/o/r|--json=number|--jq=.[]|--template=x|--state=all|--head=a/b|--base=main|--author=@me|--label=bug|--label=two|--limit=5|--search=is:open fix|--draft", ""},
		{"pr.diff", "--color=never|--name-only|--patch|7", "pr|diff|--repo=github.com/o/r|--color=never|--name-only|--patch|7", ""},
		{"pr.checks", "--json|name|--jq|.[]|--required|feat/x", "pr|checks|--repo=github.com/o/r|--json=name|--jq=.[]|--required|feat/x", ""},
		{"pr.create", "--title|T", "pr|create|--repo=github.com/o/r|--title=T|--head=agentbox/one|--body-file=-", ""},
		{"pr.create", "-t=T|-b|two\nlines|-B|main|--head|agentbox/one|-d|-l|x|-a|u|-r|v|-m|M", "pr|create|--repo=github.com/o/r|--title=T|--base=main|--head=agentbox/one|--draft|--label=x|--assignee=u|--reviewer=v|--milestone=M|--body-file=-", "two\nlines"},
		{"pr.create", "-dtT|-Hfeat/x", "pr|create|--repo=github.com/o/r|--draft|--title=T|--head=feat/x|--body-file=-", ""},
		{"pr.create", "-tA|-tB|--head=a|--head=b", "pr|create|--repo=github.com/o/r|--title=B|--head=b|--body-file=-", ""},
		{"pr.create", "--title|--web|--body|@/etc/passwd", "pr|create|--repo=github.com/o/r|--title=--web|--head=agentbox/one|--body-file=-", "@/etc/passwd"},
		{"pr.comment", "7|--body|--editor", "pr|comment|--repo=github.com/o/r|--body-file=-|7", "--editor"},
		{"pr.comment", "-bx", "pr|comment|--repo=github.com/o/r|--body-file=-|agentbox/one", "x"},
		{"pr.review", "-a|--|7", "pr|review|--repo=github.com/o/r|--approve|--body-file=-|7", ""},
		{"pr.review", "--request-changes|-b|no", "pr|review|--repo=github.com/o/r|--request-changes|--body-file=-|agentbox/one", "no"},
		{"pr.review", "-c|-b|hm|7", "pr|review|--repo=github.com/o/r|--comment|--body-file=-|7", "hm"},
		{"pr.merge", "7|-s|-d|--auto", "pr|merge|--repo=github.com/o/r|--squash|--delete-branch|--auto|7", ""},
		{"pr.merge", "-m|-r", "pr|merge|--repo=github.com/o/r|--merge|--rebase|agentbox/one", ""},
		{"pr.close", "7|-d|-c|done", "pr|close|--repo=github.com/o/r|--delete-branch|--comment=done|7", ""},
		{"pr.reopen", "7", "pr|reopen|--repo=github.com/o/r|7", ""},
		{"run.list", "--json=name|--jq=.|-L|3|-w|ci.yml|-b|main|-s|failure|-u|me", "run|list|--repo=github.com/o/r|--json=name|--jq=.|--limit=3|--workflow=ci.yml|--branch=main|--status=failure|--user=me", ""},
		{"run.view", "9|--json|jobs|--log|--log-failed|-j|4|-a|2|--exit-status", "run|view|--repo=github.com/o/r|--json=jobs|--log|--log-failed|--job=4|--attempt=2|--exit-status|9", ""},
		{"run.view", "--job=4", "run|view|--repo=github.com/o/r|--job=4", ""},
		{"run.rerun", "9|--failed|-j4|-d", "run|rerun|--repo=github.com/o/r|--failed|--job=4|--debug|9", ""},
	} {
		c, err := read("gh."+row.op, "", split(row.args)...)
		if err != nil {
			t.Errorf("%s %s: %v", row.op, row.args, err)
			continue
		}
		argv, stdin, err := c.argv()
		if got := strings.Join(argv, "|"); err != nil || got != row.argv || string(stdin) != row.stdin {
			t.Errorf("%s %s:\ngot  %s, %q, %v\nwant %s, %q", row.op, row.args, got, stdin, err, row.argv, row.stdin)
		}
	}
}

func split(args string) []string {
	if args == "" {
		return nil
	}
	return strings.Split(args, "|")
}

// TestRefused: what reaches a file, another repository or host, a person's
// screen, or no end is refused, in every spelling.
func TestRefused(t *testing.T) {
	common := []string{
		"--repo=x/y", "--repo|x/y", "-Rx/y", "-R|x/y", "-R=x/y", "--web", "--editor", "-e", "--watch", "-i5", "--hostname=h", "--hostname|h",
		"--cache=1h", "--recover=f", "--no-such", "-Z", "--body-file=/etc/passwd", "--body-file|-", "-", "---", "--=x", "-\x00", "1|2", "--input=-",
		"a..b", "-1", "https://github.com/x/y/pull/1", "https://ghe.x/o/r/pull/1", "https://github.com/o/r/issues/1", "refs/heads/main", "u:branch",
	}
	rows := map[string][]string{
		"pr.view":   {"-w", "--json=a;b", "--json", "--comments=true"},
		"pr.list":   {"7", "-w", "-s|any", "-L|x", "-H|a b", "-S|repo:x/y", "-S|is:open Repo : x/y", "-A|org:x", "-l|user:x", "-S|a\nb"},
		"pr.diff":   {"--color=red", "-w"},
		"pr.checks": {"-w", "--interval=1"},
		"pr.create": {"", "7", "-w", "-Ff", "-F|/etc/passwd", "-T|t.md", "--template=t.md", "--title|x\ny", "--title|", "-tx|-H|u:b", "-tx|-B|-x", "--fill=x"},
		"pr.comment": {
			"", "-b|", "-b| \n", "-F|f", "--edit-last", "-b|\x00", "-b",
		},
		"pr.review": {"", "-c", "-r", "-a|-r|-bx", "-a|-F|f"},
		"pr.merge":  {"--admin", "--body=x", "-F|f", "-bx", "--subject=x", "--match-head-commit=abc", "-t|x"},
		"pr.close":  {"", "-c|x", "-d"},
		"pr.reopen": {"", "-d|7"},
		"run.list":  {"9", "-b|a b", "-s|x y", "--all"},
		"run.view":  {"", "main", "-j|x", "-v", "-w"},
		"run.rerun": {"", "main", "--failed=1", "-j", "9|8"},
	}
	for name, own := range rows {
		for _, args := range slices.Concat(own, common) {
			if c, err := read("gh."+name, "", split(args)...); err == nil {
				t.Errorf("%s %q is %+v", name, args, c.request)
			}
		}
	}
	if c, err := read("gh.pr.view", "", slices.Repeat([]string{"-c"}, maxArgs+1)...); err == nil {
		t.Errorf("got %+v", c)
	}
	if c, err := read("gh.pr.comment", "", "-b", strings.Repeat("x", maxBytes)); err == nil {
		t.Errorf("got %+v", c)
	}
	if c, err := read("gh.pr.view", "user"); err == nil {
		t.Errorf("an endpoint is taken: %+v", c)
	}
}

// TestExpressionsOfTheHost: gh's jq reads the environment of gh, which holds the
// user's token.
func TestExpressionsOfTheHost(t *testing.T) {
	for expression, ok := range map[string]bool{
		".": true, ".[] | select(.state == \"OPEN\") | .number": true, ".[].environment": true, "map({number, title})": true,
		"env": false, "$ENV": false, "$ENV.GH_TOKEN": false, "$ ENV": false, `"\(env|tostring)"`: false, "[.[]|env]": false, "{env}": false,
		"[range(1e9)]": false, "..": false, "def f: f; f": false, "repeat(1)": false, "include \"x\";": false, "input": false, "\x00": false,
	} {
		for _, o := range ops {
			if _, has := o.flag("--jq"); !has {
				continue
			}
			f, _ := o.flag("--jq")
			if err := f.value(expression); (err == nil) != ok {
				t.Errorf("%s --jq %q: %v", o.name, expression, err)
			}
		}
	}
}

func TestAPIArguments(t *testing.T) {
	const comments, replies = "repos/o/r/pulls/5/comments", "repos/o/r/pulls/5/comments/42/replies"
	for _, row := range []struct {
		endpoint, args, argv string
	}{
		{comments, "", "--method=GET"},
		{comments, "--jq|.[].body", "--jq=.[].body|--method=GET"},
		{comments, "--jq|.[].id|--paginate", "--jq=.[].id|--paginate|--method=GET"},
		{comments, "--slurp", "--slurp|--method=GET"},
		{comments, "-X|GET", "--method=GET"},
		{comments, "--method=get", "--method=GET"},
		{comments, "-XGET", "--method=GET"},
		{comments, "-X=GET", "--method=GET"},
		{comments, "-XGET|-fper_page=5", "--method=GET|--raw-field=per_page=5"},
		{comments, "-X|POST|-f|body=hi", "--method=POST|--raw-field=body=hi"},
		{comments, "-f|body=hi|-X|POST", "--method=POST|--raw-field=body=hi"},
		{comments, "-f|body=hi", "--method=POST|--raw-field=body=hi"},
		{comments, "-fbody=hi", "--method=POST|--raw-field=body=hi"},
		{comments, "-f=body=hi", "--method=POST|--raw-field=body=hi"},
		{comments, "--raw-field=body=hi", "--method=POST|--raw-field=body=hi"},
		{comments, "-XPOST|-Fline=10", "--method=POST|--field=line=10"},
		{comments, "--field|line=10|-F|body={owner}", "--field=line=10|--method=POST|--raw-field=body={owner}"},
		{comments, "-F|path=a|-F|body=true", "--raw-field=path=a|--method=POST|--raw-field=body=true"},
		{comments, "-f|body=@/etc/passwd", "--method=POST|--raw-field=body=@/etc/passwd"},
		{comments, "-H|Accept: application/vnd.github+json", "--header=Accept: application/vnd.github+json|--method=GET"},
		{replies, "-fbody=x", "--method=POST|--raw-field=body=x"},
	} {
		for _, slashes := range []string{"", "/", "//"} {
			c, err := read("gh.api", slashes+row.endpoint, split(row.args)...)
			if err != nil {
				t.Errorf("%s %s: %v", row.endpoint, row.args, err)
				continue
			}
			argv, stdin, err := c.argv()
			if got, want := strings.Join(argv, "|"), "api|"+row.endpoint+"|"+row.argv; err != nil || got != want || stdin != nil {
				t.Errorf("%s %s:\ngot  %s, %v\nwant %s", row.endpoint, row.args, got, err, want)
			}
			if post := strings.Contains(row.argv, "POST"); post != (c.op.kind == policy.APIPost) || post != c.writes() || post != c.op.write {
				t.Errorf("%s %s is decided as %s", row.endpoint, row.args, c.op.kind)
			}
		}
	}
	for endpoint, want := range map[string]string{
		comments + "?per_page=50":                         comments + "?per_page=50",
		comments + "?per_page=50&page=2":                  comments + "?page=2&per_page=50",
		"repos/O/R/pulls/5/comments":                      comments,
		"repos/{owner}/{repo}/pulls/5/comments":           comments,
		"repos/o/r/issues/5/comments":                     "",
		"repos/o/r/pulls/5/merge":                         "",
		"repos/o/r/pulls/abc/comments":                    "",
		"repos/x/y/pulls/1/comments":                      "",
		"repos/o/r/../../x/y/pulls/1/comments":            "",
		"repos/o%2fr/r/pulls/1/comments":                  "",
		"https://evil.example/repos/o/r/pulls/1/comments": "",
		comments + "?access_token=x":                      "",
		comments + "?page=%zz":                            "",
		comments + "#x":                                   "",
		comments + "/":                                    "",
		"user":                                            "",
		"":                                                "",
		"graphql":                                         "",
	} {
		c, err := read("gh.api", endpoint)
		if (err == nil) != (want != "") || err == nil && c.Target != want {
			t.Errorf("%q is %+v, %v", endpoint, c, err)
		}
	}
	for _, args := range []string{
		"-X|PATCH|-fbody=x", "-X|DELETE", "--method=put", "-XPATCH", "--input|-", "--input=/x", "--input|/etc/hosts", "-f|-X=GET", "-F|body=@/etc/passwd", "-Fbody=@-",
		"--field=body=@f", "--hostname|h", "--hostname=h", "-H|Authorization: x", "-HX-GitHub-Api-Version: 1", "--header=Cookie: a", "--cache|1h", "-H|Accept: a\nX: b",
		"-i", "--include", "--silent", "-p|x", "--template=x", "-t|x", "-f|title=x", "-Xfoo", "-X", "-fbody", "-XGET|-fbody=x", "-fbody[x]=1", "user", "-fpath=a\x00b",
		"--repo=x/y", "-X|GET|-X|PATCH",
	} {
		if c, err := read("gh.api", comments, split(args)...); err == nil {
			t.Errorf("%q is %+v", args, c.request)
		}
	}
}

func TestTheBoxsBranchIsTheHead(t *testing.T) {
	for _, row := range []struct {
		branch, sanctioned core.BranchName
		args, head         string
		own                bool
	}{
		{"agentbox/one", "", "--title|T", "agentbox/one", true},
		{"agentbox/one", "feat/y", "--title|T", "feat/y", true},
		{"agentbox/one", "feat/y", "--title|T|--head=agentbox/one", "agentbox/one", true},
		{"agentbox/one", "", "--title|T|-Hagentbox/one", "agentbox/one", true},
		{"agentbox/one", "", "--title|T|-H|x", "x", false},
		{"agentbox/one", "", "--title|T|-H=x", "x", false},
		{"", "", "--title|T", "", false},
		{"HEAD", "", "--title|T", "", false},
		{"", "", "--title|T|--head|x", "x", false},
	} {
		record := shop
		record.Branch, record.Sanctioned = row.branch, row.sanctioned
		o, _ := findOp("pr.create")
		c, err := understand(o, record, wire.ForgeParams{Args: split(row.args)})
		if row.head == "" {
			if err == nil {
				t.Errorf("%+v: %+v", row, c.request)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", row, err)
			continue
		}
		argv, _, _ := c.argv()
		heads := slices.DeleteFunc(argv, func(a string) bool { return !strings.HasPrefix(a, "--head") })
		if !slices.Equal(heads, []string{"--head=" + row.head}) || own(record, row.head) != row.own {
			t.Errorf("%+v: %q, own %v", row, heads, own(record, row.head))
		}
	}
}

// FuzzArguments: whatever a box says, gh is called with options of the table, the
// recorded repository and one target that is no option.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{"--title\x01T\x01--fill", "-dtT\x01-H=x", "7\x01-b\x01x", "-F\x01body=@f", "--\x01-x", "-X=POST\x01-f\x01-X=GET", "https://github.com/o/r/pull/1"} {
		for i := range ops {
			f.Add(uint8(i), seed, "repos/o/r/pulls/5/comments?page=1")
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, args, endpoint string) {
		o := ops[int(which)%len(ops)]
		if o.takes != apiAddress {
			endpoint = ""
		}
		c, err := understand(o, shop, wire.ForgeParams{Args: strings.Split(args, "\x01"), Endpoint: endpoint})
		if err != nil {
			return
		}
		argv, _, err := c.argv()
		if err != nil {
			t.Fatalf("%+v: %v", c.request, err)
		}
		for i, arg := range argv[strings.Count(o.name, ".")+1:] {
			name, _, _ := strings.Cut(arg, "=")
			_, known := o.flag(name)
			switch {
			case o.takes == apiAddress && i == 0:
				if !strings.HasPrefix(arg, "repos/o/r/pulls/") {
					t.Errorf("address %q", arg)
				}
			case known, arg == "--repo=github.com/o/r", arg == bodyFile, name+"=" == o.says:
				if strings.HasPrefix(arg, "--field=") && strings.Contains(arg, "=@") {
					t.Errorf("file %q", arg)
				}
			case arg != c.Target || strings.HasPrefix(arg, "-"):
				t.Errorf("argument %q of %q", arg, argv)
			}
		}
		whole, err := json.Marshal(c.request)
		var again request
		if err == nil {
			err = wire.Decode(whole, &again)
		}
		if err != nil {
			t.Errorf("%s: %v", whole, err)
		}
	})
}
