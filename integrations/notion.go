package integrations

import (
	"encoding/json"
	"errors"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
)

// notion speaks to Notion through its own ntn. Of the API it has what reads:
// GET, and the searches and queries that Notion does by POST, whose paths and
// methods are fixed here.
var notion = Service{
	Name: "notion", Program: "ntn", Shims: []string{"ntn", "notion"},
	Detect: Detect{
		Version: []string{"--version"}, Auth: []string{"whoami"},
		Install: "npm install -g ntn", Login: "ntn login",
	},
	Scope: Scope{
		Key: "root", What: "the id of a page",
		Valid: func(s string) bool { return notionID(s) == nil },
		Holds: func(root, destination string) bool {
			return plainID(strings.TrimPrefix(destination, "page:")) == plainID(root)
		},
	},
	Ops: []Op{
		{Name: "whoami", Summary: "who the host is logged in as", Argv: []string{"whoami"}},
		{
			Name: "api", Summary: "read by the public API, GET only", Argv: []string{"api"}, Fixed: []string{"--method=GET"},
			Words: []Word{{Name: "the path", Value: apiPath}, {Name: "an input", Rest: true, Value: getInput}},
			Flags: append([]Flag{
				{Name: "--method", Short: "-X", Value: matches(`^(?i:get)$`, "GET; search and query are operations of their own"), Drop: true},
				{Name: "--spec", Switch: true},
				{Name: "--docs", Switch: true},
				{Name: "--help", Short: "-h", Switch: true},
				{Name: "--version", Short: "-V", Switch: true},
			}, apiFlags...),
			Or: &Op{
				Name: "api", Argv: []string{"api"}, Fixed: []string{"--method=POST"}, Words: []Word{{Name: "the path", Needed: true, Value: readingPost}, {Name: "an input", Rest: true, Value: bodyInput}},
				Flags: postFlags,
			},
		},
		{
			Name: "search", Summary: "find pages and data sources", Argv: []string{"api", "v1/search"}, Verbs: [][]string{{"search"}}, Fixed: []string{"--method=POST"},
			Words: []Word{{Name: "an input", Rest: true, Value: bodyInput}}, Flags: postFlags,
		},
		{
			Name: "query", Summary: "query a database or data source", Argv: []string{"api"}, Verbs: [][]string{{"query"}}, Fixed: []string{"--method=POST"},
			Words: []Word{
				{Name: "databases/<id> or data_sources/<id>", Needed: true, Value: queried, Make: func(s string) string { return "v1/" + s + "/query" }},
				{Name: "an input", Rest: true, Value: bodyInput},
			}, Flags: postFlags,
		},
		{
			Name: "page.create", Summary: "make a page", Write: true, Argv: []string{"pages", "create"}, Default: underRoot,
			Flags: []Flag{{Name: "--parent", Value: parentRef, Place: true}, {Name: "--content", Text: true}, {Name: "--json", Switch: true}},
		},
		{
			Name: "page.update", Summary: "replace what a page says", Write: true, Argv: []string{"pages", "update"},
			Words: []Word{{Name: "the page", Needed: true, Place: true, Value: notionID}},
			Flags: []Flag{{Name: "--content", Text: true}, {Name: "--json", Switch: true}},
		},
	},
}

const idForm = `([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})`

var (
	notionID  = matches(`^`+idForm+`$`, "the id of a page")
	parentRef = matches(`^(page|database|data-source):`+idForm+`$`, "page:<id>, database:<id> or data-source:<id>")
	queried   = matches(`^(databases|data_sources)/[A-Za-z0-9-]{1,64}$`, "databases/<id> or data_sources/<id>")
	// readingPost are the paths at which a POST reads.
	readingPost = matches(`^/?v1/(search|(databases|data_sources)/[A-Za-z0-9-]{1,64}/query)$`, "search, or the query of a database or data source")
	apiForm     = matches(`^/?v1(/[A-Za-z0-9_.-]+)+(\?[A-Za-z0-9_.=&\[\]-]*)?$`, "a path below v1/")
	apiFlags    = []Flag{
		{Name: "--notion-version", Value: matches(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`, "a date, such as 2025-09-03")},
		{Name: "--verbose", Short: "-v", Switch: true},
	}
	postFlags = append([]Flag{{Name: "--data", Short: "-d", Value: object}, {Name: "--method", Short: "-X", Value: matches(`^(?i:post)$`, "POST"), Drop: true}}, apiFlags...)
)

// plainID is an id without its dashes.
func plainID(id string) string { return strings.ToLower(strings.ReplaceAll(id, "-", "")) }

func underRoot(c *Call, root string) {
	if _, given := c.Option("--parent"); !given {
		c.set("--parent", "page:"+root)
	}
}

// apiPath refuses what a server could read as another path.
func apiPath(s string) error {
	if err := apiForm(s); err != nil {
		return err
	}
	u, err := url.Parse(s)
	if err != nil || path.Clean(u.Path) != u.Path {
		return errors.New("it is not in its plain form")
	}
	return nil
}

func object(s string) error {
	var v map[string]json.RawMessage
	if json.Unmarshal([]byte(s), &v) != nil || v == nil {
		return errors.New("it is a JSON object")
	}
	return nil
}

// The program takes an input for the first of these that it holds, in this
// order: a typed value of the body, a parameter, a header, a text of the body.
var (
	typedInput  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([A-Za-z0-9_\[\] -]+):=(.*)$`) })
	paramInput  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_\[\]-]+==[^@]`) })
	headerInput = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^Accept:application/json$`) })
	textInput   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([A-Za-z0-9_\[\] -]+)=([^=].*)?$`) })
)

// getInput takes parameters, which a value of the body could hide in.
func getInput(s string) error {
	if !strings.Contains(s, ":=") && paramInput().MatchString(s) || headerInput().MatchString(s) {
		return nil
	}
	return errors.New("a GET takes parameters, name==value, and no body")
}

// bodyInput takes what stands in the body of a search or a query.
func bodyInput(s string) error {
	if m := typedInput().FindStringSubmatch(s); m != nil {
		if !json.Valid([]byte(m[2])) {
			return errors.New("name:= takes JSON")
		}
		return nil
	}
	if strings.Contains(s, ":=") || strings.Contains(s, "==") || strings.Contains(s, "=@") || !textInput().MatchString(s) {
		return errors.New("it is name=text or name:=json")
	}
	return nil
}
