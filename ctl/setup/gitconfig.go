package setup

import (
	"fmt"
	"net/url"
	"strings"

	stream "github.com/madarco/agentbox/core/setup"
)

// gitConfig is the text that the image's system configuration includes: git
// reaches each repository's remote through the relay's endpoint, whichever way
// its address is spelled, while remote.<name>.url stays the real one.
func gitConfig(repos []stream.Repo) (string, error) {
	var c configText
	for _, repo := range repos {
		c.section("safe", "")
		c.set("directory", string(repo.BoxPath))
		if repo.Endpoint == "" {
			continue
		}
		if u, err := url.Parse(repo.Endpoint); err != nil || u.Scheme != "http" || u.Host == "" {
			return "", fmt.Errorf("write git's configuration: %q is no endpoint", repo.Endpoint)
		}
		if len(repo.Rewrites) > 0 {
			c.section("url", repo.Endpoint)
			for _, spelling := range repo.Rewrites {
				c.set("insteadOf", spelling)
			}
			for _, spelling := range repo.Rewrites {
				c.spare(spelling)
			}
		}
		c.section("credential", repo.Endpoint)
		c.set("helper", "") // drops every helper: the forwarder adds the token
		c.section("http", repo.Endpoint)
		c.set("proxy", "")
		c.set("version", "HTTP/1.1")
		c.set("postBuffer", "4194304") // a small pack goes in one piece
	}
	return c.text.String(), c.err
}

// spare keeps longer names from the rewrite of a spelling: git compares
// prefixes, and takes the longest, so that shop-docs is not sent where shop is.
func (c *configText) spare(spelling string) {
	if strings.HasSuffix(spelling, ".git") {
		return // nobody's name goes on behind it
	}
	for _, next := range "-_.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		longer := spelling + string(next)
		c.section("url", longer)
		c.set("insteadOf", longer)
	}
}

// configText writes git's configuration syntax (git-config(1), SYNTAX).
type configText struct {
	text strings.Builder
	err  error
}

func (c *configText) section(name, sub string) {
	c.check(sub)
	if sub != "" {
		name += ` "` + escape.Replace(sub) + `"`
	}
	fmt.Fprintf(&c.text, "[%s]\n", name)
}

func (c *configText) set(key, value string) {
	c.check(value)
	fmt.Fprintf(&c.text, "\t%s = \"%s\"\n", key, escape.Replace(value))
}

// check refuses what would not stay on its line.
func (c *configText) check(value string) {
	if strings.ContainsAny(value, "\n\r\x00") && c.err == nil {
		c.err = fmt.Errorf("write git's configuration: %q holds a line break", value)
	}
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
