package forge

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
)

// What the API's addresses of review comments take (docs.github.com/rest/pulls/comments).
var (
	addressForm = regexp.MustCompile(`^/*repos/([^/?]+)/([^/?]+)/(pulls/[0-9]{1,15}/comments(?:/[0-9]{1,15}/replies)?)(?:\?(.*))?$`)
	queryKeys   = []string{"sort", "direction", "since", "per_page", "page"}
	postKeys    = []string{
		"body", "commit_id", "path", "position", "side", "line", "start_line", "start_side", "in_reply_to", "subject_type",
	}
	literalForm = regexp.MustCompile(`^(true|false|null|-?[0-9]{1,15})$`)
)

// address reads the address of an API call. It must lie in the repository; gh's
// own words {owner} and {repo} mean that.
func address(repo Repository, endpoint string) (string, error) {
	m := addressForm.FindStringSubmatch(endpoint)
	if m == nil {
		return "", fmt.Errorf("the address %s is not taken: only repos/%s/%s/pulls/<number>/comments, and /comments/<id>/replies", core.Untrusted(endpoint).Quote(), repo.Owner, repo.Name)
	}
	owner, name := m[1], m[2]
	if owner == "{owner}" && name == "{repo}" {
		owner, name = repo.Owner, repo.Name
	}
	if !repo.is(owner, name) {
		return "", fmt.Errorf("%s is not the box's repository, %s/%s", core.Untrusted(owner+"/"+name).Quote(), repo.Owner, repo.Name)
	}
	query, err := url.ParseQuery(m[4])
	if err != nil {
		return "", errors.New("the query of the address can't be read")
	}
	for key := range query {
		if !slices.Contains(queryKeys, key) {
			return "", fmt.Errorf("the query %s is not taken", core.Untrusted(key).Quote())
		}
	}
	path := repo.api(m[3])
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, nil
}

// completeAPI decides the method, as gh does: a field makes a POST of a call that
// names none. What is sent is what is written: only words that are no text
// are typed, so that gh expands nothing, and reads no file.
func (c *call) completeAPI() error {
	method, named := c.get("--method")
	kept := c.Options[:0:0]
	var sent []option
	for _, o := range c.Options {
		if o.Name != "--field" && o.Name != "--raw-field" {
			kept = append(kept, o)
			continue
		}
		key, value, _ := strings.Cut(o.Value, "=")
		if o.Name == "--field" && strings.HasPrefix(value, "@") {
			return fmt.Errorf("--field %s: a value is never read from a file", core.Untrusted(key).Quote())
		}
		if o.Name == "--field" && !literalForm.MatchString(value) {
			o.Name = "--raw-field"
		}
		sent = append(sent, o)
	}
	if !named {
		method = "GET"
		if len(sent) > 0 {
			method = "POST"
		}
	}
	keys := queryKeys
	if method == "POST" {
		keys, c.op.kind, c.op.write = postKeys, policy.APIPost, true
	}
	for _, o := range sent {
		key, value, _ := strings.Cut(o.Value, "=")
		switch {
		case !slices.Contains(keys, key):
			return fmt.Errorf("the field %s is not taken with %s", core.Untrusted(key).Quote(), method)
		case key == "body":
			c.Text = value
		default:
			kept = append(kept, o)
		}
	}
	c.Options = kept
	c.set("--method", method)
	return nil
}
