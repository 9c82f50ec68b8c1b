package integrations

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	page  = "0123456789abcdef0123456789abcdef"
	other = "ffffffff-ffff-ffff-ffff-ffffffffffff"
)

func args(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "|")
}

// find is an operation that must be there.
func find(t *testing.T, name string) (Service, Op) {
	t.Helper()
	service, op, ok := ParseMethod(MethodPrefix + name)
	s, known := Find(service)
	o, has := s.Op(op)
	if !ok || !known || !has {
		t.Fatalf("no operation %s", name)
	}
	return s, o
}

func TestArgumentsAreBuiltAnew(t *testing.T) {
	for _, test := range []struct{ op, args, want string }{
		{"notion.whoami", "", "whoami"},
		{"notion.api", "v1/users/me", "api|v1/users/me|--method=GET"},
		{"notion.api", "--notion-version=2022-06-28|v1/users/me", "api|v1/users/me|--method=GET|--notion-version=2022-06-28"},
		{"notion.api", "-X|get|/v1/users?page_size=5|-v", "api|/v1/users?page_size=5|--method=GET|--verbose"},
		{"notion.api", "v1/databases/abc|page_size==50|Accept:application/json", "api|v1/databases/abc|page_size==50|Accept:application/json|--method=GET"},
		{"notion.api", "--spec", "api|--method=GET|--spec"},
		{"notion.api", "--docs", "api|--method=GET|--docs"},
		{"notion.api", "-v", "api|--method=GET|--verbose"},
		{"notion.api", "v1/search|-d|{}", "api|v1/search|--method=POST|--data={}"},
		{"notion.api", "-d|{}|v1/search", "api|v1/search|--method=POST|--data={}"},
		{"notion.api", "/v1/search|-d{}", "api|/v1/search|--method=POST|--data={}"},
		{"notion.api", "-X|POST|v1/search|--data={}", "api|v1/search|--method=POST|--data={}"},
		{"notion.api", "v1/search|query=foo", "api|v1/search|query=foo|--method=POST"},
		{"notion.api", "v1/data_sources/abc/query|filter:={}", "api|v1/data_sources/abc/query|filter:={}|--method=POST"},
		{"notion.search", "-XPOST|-d{}", "api|v1/search|--method=POST|--data={}"},
		{"notion.search", "", "api|v1/search|--method=POST"},
		{"notion.search", "query=a b|page_size:=5", "api|v1/search|query=a b|page_size:=5|--method=POST"},
		{"notion.search", `-d|{"query":"@x"}`, `api|v1/search|--method=POST|--data={"query":"@x"}`},
		{"notion.query", "data_sources/abc|filter:={}", "api|v1/data_sources/abc/query|filter:={}|--method=POST"},
		{"notion.query", "databases/abc|--data={}", "api|v1/databases/abc/query|--method=POST|--data={}"},
		{"notion.page.create", "--parent|page:" + page + "|--content|# T\n--method=GET", "pages|create|--parent=page:" + page + "|--content=# T\n--method=GET"},
		{"notion.page.update", page + "|--content=-x|--json", "pages|update|" + page + "|--content=-x|--json"},
		{"linear.whoami", "", "auth|whoami"},
		{"linear.issue.list", "-s|started|-s=backlog|--limit|5|-A|--no-pager", "issue|list|--no-pager|--state=started|--state=backlog|--limit=5|--all-assignees"},
		{"linear.issue.mine", "-sstarted|--team=ENG", "issue|mine|--no-pager|--state=started|--team=ENG"},
		{"linear.issue.view", "ENG-1|-j", "issue|view|ENG-1|--no-pager|--no-download|--json"},
		{"linear.issue.view", "-j|--|ENG-1", "issue|view|ENG-1|--no-pager|--no-download|--json"},
		{"linear.issue.query", "--search|a --web|--all-teams", "issue|query|--no-pager|--search=a --web|--all-teams"},
		{"linear.team.list", "", "team|list"},
		{"linear.api", "{x}|--variable|k=user@example.com", "api|{x}|--variable=k=user@example.com"},
		{"linear.api", "--variables-json|\"mutation\"|{x}", "api|{x}|--variables-json=\"mutation\""},
		{"linear.api", "--paginate|--variables-json|{}|query T {x}", "api|query T {x}|--paginate|--variables-json={}"},
		{"linear.api", "", "api"},
		{"linear.api", "--help", "api|--help"},
		{"linear.issue.create", "-t|--web|-d=x", "issue|create|--no-interactive|--title=--web|--description=x"},
		{"linear.issue.update", "ENG-1|--state|Done|--unassign", "issue|update|ENG-1|--state=Done|--unassign"},
		{"linear.issue.comment", "ENG-1|-b|done", "issue|comment|add|ENG-1|--body=done"},
	} {
		_, op := find(t, test.op)
		c, err := op.Parse(args(test.args))
		if err != nil {
			t.Errorf("%s %s: %v", test.op, test.args, err)
			continue
		}
		if got := strings.Join(c.Argv(), "|"); got != test.want {
			t.Errorf("%s %s is called as\n%s, want\n%s", test.op, test.args, got, test.want)
		}
	}
}

func TestArgumentsThatAreRefused(t *testing.T) {
	for op, rows := range map[string][]string{
		"notion.whoami": {"x", "--json", "-v"},
		"notion.api": {
			"v1/pages|-d|{}", "v1/comments|-d|{}", "v1/pages|title=x", "v1/blocks/a/children|-d|{}", "-X|PATCH|v1/pages/1", "-XPATCH|v1/pages/1|-d|{}", "--method=DELETE|v1/blocks/a", "-XPUT|v1/search",
			"-XPOST|v1/databases/abc", "v1/data_sources/abc/blah|-d|{}", "v1/search/../pages|-d|{}", "v1/databases/../query|foo:=1", "v1/./users", "v1//users", "-X|POST", "-X",
			"--workers-config-file|v1/search|v1/pages|-d|{}", "--env|v1/search|v1/pages|-d|{}", "--env|prod|v1/pages|title=x", "--flag-of-tomorrow|v1/search", "--input|-", "--file|/x", "--file=/x", "v1/pages|-d|-X=GET",
			"v1/search|-d|@file", "v1/search|--data=@f", "v1/search|k:=@f", "v1/search|k=@f", "v1/users|k==@f", "v1/search|-d|{}|-d|{}", "v1/search?x=1|-d|{}", "v1/search|-d|[]", "v1/search|-d|{",
			"v1/users|Authorization:x", "v1/users|a:=b==c", "https://example.com/v1/users", "v2/users", "ls", "v1/users%2f..", "v1/users|v1/pages", "v1/users|-X|GET|-X|GET", "v1/us\x00ers", "--help=x", "--notion-version=@x",
		},
		"notion.search":      {"-X|GET", "--method=PATCH", "v1/pages", "k==v", "A:b", "k:=@f", "k:=", "k=@f", "-d|null", "x"},
		"notion.query":       {"", "pages/abc", "databases/a/b", "databases/..", "databases/abc|-X|PATCH", "databases/abc?x", "v1/databases/abc/query"},
		"notion.page.create": {"--parent|workspace", "--parent|page:x", "--file|x", "--content|@x", "--content=@/etc/passwd", "x", "--content-file=x", "--allow-deleting-content"},
		"notion.page.update": {"", "x", page + "|" + page, page + "|--allow-deleting-content", page + "|--content|@x"},
		"linear.whoami":      {"token", "--workspace=x"},
		"linear.issue.list":  {"--web", "-w", "--app", "-a", "--team|@x", "--state|open", "--limit=-1", "x", "--workspace|x"},
		"linear.issue.mine":  {"-w", "-A", "-s"},
		"linear.issue.view":  {"", "ENG", "ENG-1|--web", "ENG-1|-a", "ENG-1|ENG-2", "https://linear.app/x/issue/ENG-1", "--|-w"},
		"linear.issue.query": {"--team=ENG;x", "--created-after=yesterday", "--json|--json"},
		"linear.team.list":   {"--web", "-w", "create"},
		"linear.api": {
			"mutation{a}", "{a}|mutation{a}", "{a}|{b}", "fragment F on T {a} mutation M {...F}", "query A{a} mutation B{b}", "-mutation {x}", "--|-mutation {x}",
			"--input=/x|{a}", "--input|/x", "{a}|--variable|key=@f", "{a}|--variable=key=@f", "{a}|--variable|@f", "{a}|--variable|a=b=@f", "{a}|--variable|x", "{a}|--variables-json|@/etc/hosts", "{a}|--variables-json=@/etc/hosts",
			"{a}|--variable|--input=/etc/hosts", "{a}|-F|a=@x", "{a}|-f|a=b", "@query", "-",
		},
		"linear.issue.create":  {"--title|@x", "--description-file|x", "--description-file=x", "--start", "--team=ENG/x", "--web", "title"},
		"linear.issue.update":  {"--state|Done", "ENG-1|--description-file=x", "ENG-1|--parent=x"},
		"linear.issue.comment": {"ENG-1|--body-file|x", "ENG-1|--body-file=x", "ENG-1|--attach|x", "ENG-1|--attach=x", "ENG-1|-a|x", "ENG-1|--body|@x", "ENG-1|--public", "--body|x"},
	} {
		_, o := find(t, op)
		for _, row := range rows {
			if c, err := o.Parse(args(row)); !errors.Is(err, ErrRefused) {
				t.Errorf("%s %q: %v, %v", op, row, c, err)
			}
		}
		if _, err := o.Parse(make([]string, MaxArgs+1)); !errors.Is(err, ErrRefused) {
			t.Errorf("%s takes any number of arguments", op)
		}
	}
	_, api := find(t, "linear.api")
	if _, err := api.Parse([]string{"--variable", "--input", "/x"}); err == nil || !strings.Contains(err.Error(), "--input") {
		t.Errorf("the reason is %v", err)
	}
	if _, err := api.Parse([]string{"{a" + strings.Repeat(" ", MaxArgsBytes) + "}"}); !errors.Is(err, ErrRefused) {
		t.Errorf("a large document: %v", err)
	}
}

func TestNamesOfMethods(t *testing.T) {
	if s, op, ok := ParseMethod("integration.notion.page.create"); !ok || s != "notion" || op != "page.create" {
		t.Errorf("got %q, %q, %v", s, op, ok)
	}
	for _, m := range []string{
		"", "gh.pr.create", "integration.notion.", "integration..api", "integration.notion.page..create", "integration.notion.api.", "integration.NOTION.api", "integration.notion.API",
		"integration.notion", "Integration.notion.api", " integration.notion.api", "integration.notion.api\n", "integration.notion.a/b", "integration.9.a", "xintegration.notion.api",
	} {
		if s, op, ok := ParseMethod(m); ok {
			t.Errorf("%q is %q, %q", m, s, op)
		}
	}
}

func TestScopes(t *testing.T) {
	for _, test := range []struct {
		op, args, scope string
		want            bool
	}{
		{"linear.issue.create", "--title|x|--team|ENG", "ENG", true},
		{"linear.issue.create", "--title|x|--team|eng", "ENG", true},
		{"linear.issue.create", "--title|x|--team|OPS", "ENG", false},
		{"linear.issue.create", "--title|x|--team|ENG", "", false},
		{"linear.issue.create", "--title|x", "ENG", false},
		{"linear.issue.create", "--team|ENG|--parent|OPS-1", "ENG", false},
		{"linear.issue.update", "ENG-1", "ENG", true},
		{"linear.issue.update", "ENGX-1", "ENG", false},
		{"linear.issue.update", "ENG-1|--team|OPS", "ENG", false},
		{"linear.issue.update", other, "ENG", false},
		{"linear.issue.comment", "ENG-1|--body|x", "ENG", true},
		{"linear.issue.comment", "ENG-1|--body|x|--parent|" + other, "ENG", false},
		{"notion.page.create", "--parent|page:" + page, page, true},
		{"notion.page.create", "--parent|page:01234567-89AB-cdef-0123-456789abcdef", page, true},
		{"notion.page.create", "--parent|database:" + page, page, false},
		{"notion.page.create", "--parent|page:" + other, page, false},
		{"notion.page.update", page + "|--content|x", page, true},
		{"notion.page.update", other + "|--content|x", page, false},
	} {
		s, op := find(t, test.op)
		c, err := op.Parse(args(test.args))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Within(c, test.scope); got != test.want {
			t.Errorf("%s %s within %q: %v", test.op, test.args, test.scope, got)
		}
		if op.Default != nil && test.scope != "" {
			before := len(c.Places())
			op.Default(c, test.scope)
			if before == 0 && !s.Within(c, test.scope) {
				t.Errorf("%s %s gets no destination: %v", test.op, test.args, c.Argv())
			}
		}
	}
}

func TestEnvironmentIsTheServicesOwn(t *testing.T) {
	s := Service{Name: "notion", Env: map[string]string{"NOTION_KEYRING": "0", "NOTION_A": "b"}}
	if env, err := s.Environ(); err != nil || !slices.Equal(env, []string{"NOTION_A=b", "NOTION_KEYRING=0"}) {
		t.Errorf("got %q, %v", env, err)
	}
	for _, name := range []string{"PATH", "LD_PRELOAD", "NOTION", "NOTION_", "notion_x", "XNOTION_A", "LINEAR_A", "NOTION_A=B"} {
		if env, err := (Service{Name: "notion", Env: map[string]string{name: "x"}}).Environ(); err == nil {
			t.Errorf("%s gives %q", name, env)
		}
	}
}

// A service is one descriptor and one line: everything that stands on the
// registry is whole for each.
func TestRegistry(t *testing.T) {
	doc, err := os.ReadFile("../docs/integrations.md")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(registry, func(a, b Service) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the registry is not in order")
	}
	for _, s := range All() {
		if _, err := s.Environ(); err != nil || s.Program == "" || !slices.Contains(s.Shims, s.Program) || len(s.Detect.Version) == 0 || s.Detect.Install == "" || s.Detect.Login == "" || s.Scope.Key == "" || s.Scope.Valid == nil || s.Scope.Holds == nil {
			t.Errorf("%s is not whole: %v", s.Name, err)
		}
		for _, o := range s.Ops {
			method := MethodPrefix + s.Name + "." + o.Name
			if _, _, ok := ParseMethod(method); !ok || o.Summary == "" || len(o.Argv) == 0 {
				t.Errorf("%s is not whole", method)
			}
			if !strings.Contains(string(doc), "`"+s.Name+"."+o.Name+"`") {
				t.Errorf("%s is not in the documentation", method)
			}
			if got, rest, ok := s.Verb(append(slices.Clone(o.Argv), "x")); !ok || got.Name != o.Name && len(o.Verbs) == 0 || len(rest) != 1 {
				t.Errorf("%v means %s", o.Argv, got.Name)
			}
			for _, f := range o.Flags {
				if !strings.HasPrefix(f.Name, "--") || f.Short != "" && len(f.Short) != 2 || f.Drop && f.Place {
					t.Errorf("%s: %+v", method, f)
				}
			}
			if c, err := o.Parse(nil); err == nil && o.Write && s.Within(c, "") {
				t.Errorf("%s writes without a destination", method)
			}
		}
	}
	for _, none := range []string{"auth token", "auth login", "auth logout", "auth migrate", "auth default", "issue delete", "team create", "team delete", "issue", "", "login"} {
		for _, s := range All() {
			if o, _, ok := s.Verb(strings.Fields(none)); ok {
				t.Errorf("%s %s is %s", s.Program, none, o.Name)
			}
		}
	}
}

// FuzzParse holds what a program would be called with to what the descriptor
// declares.
func FuzzParse(f *testing.F) {
	f.Add("linear.issue.comment", "ENG-1|--body|x")
	f.Add("linear.api", "--variable|a=b|{x}")
	f.Add("notion.api", "v1/search|-d|{}")
	f.Add("notion.page.create", "--content=@x")
	f.Fuzz(func(t *testing.T, name, line string) {
		service, opName, ok := ParseMethod(MethodPrefix + name)
		s, _ := Find(service)
		op, known := s.Op(opName)
		if !ok || !known {
			return
		}
		c, err := op.Parse(args(line))
		if err != nil {
			return
		}
		argv := c.Argv()
		if !slices.Equal(argv[:len(op.Argv)], op.Argv) {
			t.Fatalf("%q begins with other words", argv)
		}
		for _, arg := range argv[len(op.Argv):] {
			name, value, _ := strings.Cut(arg, "=")
			declared := slices.Contains(c.Op.Fixed, arg) || slices.ContainsFunc(c.Op.Flags, func(f Flag) bool { return f.Name == name })
			if strings.HasPrefix(arg, "-") && !declared || strings.HasPrefix(arg, "@") || strings.HasPrefix(value, "@") && strings.HasPrefix(arg, "-") {
				t.Errorf("%q is called with %q", line, arg)
			}
		}
	})
}
