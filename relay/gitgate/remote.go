package gitgate

import (
	"context"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
)

// settings reads the repository's configuration, and finds in it the remote
// that a push of the user's goes to (git-push(1), git-config(1)): the branch's
// own, the configured default, the upstream's, origin, or the only one.
func (h *Host) settings(ctx context.Context, _ string, r *Repository) error {
	out, err := h.run.run(ctx, h.theirs(r, "config", "--includes", "-z", "--list"))
	if err != nil {
		return err
	}
	values := map[string]string{}
	var names []string
	for key, value := range pairs(out) {
		r.config = append(r.config, [2]string{key, value})
		values[key] = value // the last one counts
		if name, ok := between(key, "remote.", ".url"); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
		if _, ok := between(key, "remote.", ".promisor"); ok && value != "false" {
			r.Partial = true
		}
		r.noteFilter(key)
	}
	r.Partial = r.Partial || values["extensions.partialclone"] != ""
	choices := []string{
		values["branch."+r.Branch+".pushremote"], values["remote.pushdefault"], values["branch."+r.Branch+".remote"], "origin",
	}
	if len(names) == 1 {
		choices = append(choices, names[0])
	}
	for _, name := range choices {
		remote, err := core.ParseRemoteName(name)
		if err != nil || !slices.Contains(names, name) {
			continue
		}
		address := (&remoteSettings{here: r.config}).address(name, true)
		if isRelative(address) {
			address = filepath.Join(r.WorkTree, address)
		}
		r.Remote, r.URL = remote, stripUser(address)
		return nil
	}
	return nil
}

var (
	withScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	// helperURL is how git spells "use this remote helper" (gitremote-helpers(7)).
	helperURL = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*::`)
	scpLike   = regexp.MustCompile(`^(?:([^@/:]+)@)?([^/:\[\]]+|\[[^\]]+\]):(.*)$`)
)

// isRelative tells a relative path from every other form of address.
func isRelative(address string) bool {
	return !filepath.IsAbs(address) && !withScheme.MatchString(address) && !helperURL.MatchString(address) && !scpLike.MatchString(address)
}

// stripUser drops what may be a secret: the user part and the query of an HTTP
// address, and the password of any other. The user of an SSH address is part of
// where it goes.
func stripUser(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return address
	}
	s := strings.ToLower(scheme)
	web := strings.HasSuffix(s, "http") || strings.HasSuffix(s, "https")
	authority := rest
	if _, err := url.Parse(address); err == nil {
		authority, _, _ = strings.Cut(rest, "/")
	} // else all before its last @ may be a secret: git takes what no other parser does
	end := strings.LastIndexByte(authority, '@')
	kept := ""
	if end >= 0 && !web {
		kept, _, _ = strings.Cut(authority[:end], ":")
		kept += "@"
	}
	if rest = rest[end+1:]; web {
		rest = withoutQuery(rest)
	}
	return scheme + "://" + kept + rest
}

// withoutQuery is what stands before a query or a fragment.
func withoutQuery(address string) string {
	if i := strings.IndexAny(address, "?#"); i >= 0 {
		return address[:i]
	}
	return address
}

var userInURL = regexp.MustCompile(`://\S*@`)

// withoutUsers is a text of git's without the user part of any address in it:
// where a token stands for the user, git quotes it in its errors.
func withoutUsers(text string) string { return userInURL.ReplaceAllString(text, "://") }

// spellings are the forms of an address that people and tools write into a
// box's repository for the same place. git compares prefixes; the box's side
// sees to it that a form without ".git" catches no longer names.
func spellings(address string) []string {
	out := []string{address}
	host, path, ok := hostPath(address)
	if ok {
		path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
		bare := host
		if name, _, found := strings.Cut(host, ":"); found {
			bare = name // the port is one protocol's
		}
		for _, end := range []string{"", ".git"} {
			out = append(out,
				"https://"+host+"/"+path+end,
				"https://"+bare+"/"+path+end,
				"ssh://git@"+bare+"/"+path+end,
				"git@"+bare+":"+path+end,
			)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// hostPath takes an HTTP or SSH address apart.
func hostPath(address string) (host, path string, ok bool) {
	if withScheme.MatchString(address) {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "ssh", "git"}, strings.ToLower(u.Scheme)) {
			return "", "", false
		}
		return u.Host, u.Path, true
	}
	if m := scpLike.FindStringSubmatch(address); m != nil && !helperURL.MatchString(address) {
		return m[2], m[3], true
	}
	return "", "", false
}

// pairs reads `git config -z --list` output: key, line feed, value, NUL. A key
// without a value means true.
func pairs(out []byte) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for item := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			key, value, ok := strings.Cut(item, "\n")
			if !ok {
				value = "true"
			}
			if key != "" && !yield(key, value) {
				return
			}
		}
	}
}

// between cuts a subsection out of a key.
func between(key, prefix, suffix string) (string, bool) {
	if len(key) <= len(prefix)+len(suffix) || !strings.HasPrefix(key, prefix) || !strings.HasSuffix(key, suffix) {
		return "", false
	}
	return key[len(prefix) : len(key)-len(suffix)], true
}
