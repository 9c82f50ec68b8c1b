package workspace

import (
	"fmt"
	"strings"

	"github.com/madarco/agentbox/core/setup"
)

// config writes the format of git-config(1).
type config struct{ strings.Builder }

// section begins one, with a subsection unless that is empty.
func (c *config) section(name, sub string) {
	if sub == "" {
		fmt.Fprintf(c, "[%s]\n", name)
		return
	}
	fmt.Fprintf(c, "[%s \"%s\"]\n", name, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(strings.ReplaceAll(sub, "\n", "")))
}

var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`, "\x00", "")

func (c *config) set(name, value string) {
	fmt.Fprintf(c, "\t%s = \"%s\"\n", name, quoted.Replace(value))
}

// entry writes one variable by its full key.
func (c *config) entry(key, value string) {
	first, last := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
	if first < 0 {
		return
	}
	sub := ""
	if first < last {
		sub = key[first+1 : last]
	}
	c.section(key[:first], sub)
	c.set(key[last+1:], value)
}

// repoConfig is what the repository's own configuration gets: the carried
// values, the remote, and what makes git fit for a borrowed object store.
func repoConfig(repo setup.Repo) string {
	var c config
	for _, e := range repo.Config {
		c.entry(e.Key, e.Value)
	}
	c.section("core", "")
	c.set("precomposeUnicode", "false")
	c.section("commit", "")
	c.set("gpgSign", "false")
	c.section("repack", "")
	c.set("writeBitmaps", "false") // a bitmap needs every object in one's own pack
	name, url := string(repo.Remote), repo.RemoteURL
	if name == "" {
		name, url = "host", repo.Endpoint
	}
	c.section("remote", name)
	c.set("url", url)
	c.set("fetch", "+refs/heads/*:refs/remotes/"+name+"/*")
	c.set("fetch", "+refs/agentbox/host/*:refs/remotes/host/*")
	c.section("remote", "")
	c.set("pushDefault", name)
	c.section("push", "")
	c.set("autoSetupRemote", "true") // a plain push of a new branch goes through
	return c.String()
}

// lfsConfig makes this program the filter of git-lfs. A file that it can't
// clean fails the git add: its content must never be committed.
func lfsConfig(program, store string) string {
	var c config
	c.section("filter", "lfs")
	for _, way := range []string{"clean", "smudge"} {
		c.set(way, shellWord(program)+" lfs "+way+" "+shellWord(store))
	}
	c.set("required", "true")
	return c.String()
}

// shellWord quotes a word for sh, which git runs filters with.
func shellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
