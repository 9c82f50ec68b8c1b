package forge

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/madarco/agentbox/core"
)

// githubHost is the forge that needs no configuration of gh.
const githubHost = "github.com"

// Repository is one repository of a forge, as gh names it.
type Repository struct {
	// Host is a host name, with a port where the address over https has one.
	Host  string `json:"host"`
	Owner string `json:"owner"`
	Name  string `json:"name"`
}

var (
	hostForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$`)
	nameForm = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]*$`)
	scpForm  = regexp.MustCompile(`^(?:[^@/:]+@)?([^@/:]+):([^:]+)$`)
)

// ParseRepository reads the address of a git remote: https, ssh, or the form of
// scp. The error wraps core.ErrInvalid where it names no repository of a forge.
func ParseRepository(remote string) (Repository, error) {
	host, path := "", ""
	if u, err := url.Parse(remote); err == nil && u.Host != "" {
		switch u.Scheme {
		case "https":
			host, path = u.Host, u.Path
		case "ssh", "git+ssh":
			host, path = u.Hostname(), u.Path // the port is the protocol's own
		}
	} else if m := scpForm.FindStringSubmatch(remote); m != nil {
		host, path = m[1], m[2]
	}
	host = strings.ToLower(host)
	if host == "ssh."+githubHost || host == "www."+githubHost { // docs.github.com, "Using SSH over the HTTPS port"
		host = githubHost
	}
	owner, name, _ := strings.Cut(strings.Trim(path, "/"), "/")
	r := Repository{Host: host, Owner: owner, Name: strings.TrimSuffix(name, ".git")}
	if !r.valid() {
		return Repository{}, fmt.Errorf("remote %s: %w: it names no repository of a forge", core.Untrusted(remote).Quote(), core.ErrInvalid)
	}
	return r, nil
}

func (r Repository) valid() bool {
	for _, part := range []string{r.Owner, r.Name} {
		if !nameForm.MatchString(part) || strings.Trim(part, ".") == "" {
			return false
		}
	}
	return hostForm.MatchString(r.Host)
}

// String is the form that gh takes: host/owner/name.
func (r Repository) String() string { return r.Host + "/" + r.Owner + "/" + r.Name }

// api is the path of something of the repository in the forge's API.
func (r Repository) api(path string) string { return "repos/" + r.Owner + "/" + r.Name + "/" + path }

// is tells whether owner and name, which forges compare without case, are its own.
func (r Repository) is(owner, name string) bool {
	return strings.EqualFold(owner, r.Owner) && strings.EqualFold(name, r.Name)
}
