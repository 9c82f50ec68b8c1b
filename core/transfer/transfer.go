// Package transfer holds the rules for files that pass between a box and the
// host: what a request asks for, where a path of the host lies, what looks
// secret, and the archive that carries the files.
//
// Invariants:
//   - The package is pure: it touches no file system.
//   - A name is held against the table of secrets in every spelling that some
//     file system takes for it.
//   - The decoder of archives yields plain files and folders alone, under clean
//     relative names, each once, in bounded number, size and depth.
package transfer

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/madarco/agentbox/core/redlist"
	"github.com/madarco/agentbox/core/wire"
)

// ErrBadParams is wrapped by what Parse refuses.
var ErrBadParams = errors.New("bad copy request")

// Copy is a request to copy files, one way or the other.
type Copy struct {
	Sources []string `json:"sources"`
	Dest    string   `json:"dest"`
	Choice
}

// Choice says what of the sources is copied.
type Choice struct {
	Exclude []string `json:"exclude,omitempty"`
	// Flat copies no folders, and Heavy also what DefaultExcludes names.
	Flat  bool `json:"flat,omitempty"`
	Heavy bool `json:"heavy,omitempty"`
}

// Params are what a box sends, in the present form or, from older clients, as a
// pair of paths.
type Params struct {
	Sources         []string `json:"sources,omitempty"`
	Dest            string   `json:"dest,omitempty"`
	Recursive       *bool    `json:"recursive,omitempty"`
	Exclude         []string `json:"exclude,omitempty"`
	DefaultExcludes *bool    `json:"defaultExcludes,omitempty"`
	BoxPath         string   `json:"boxPath,omitempty"`
	HostPath        string   `json:"hostPath,omitempty"`
	// Yes is understood from older clients and means nothing: no box answers
	// for its user.
	Yes bool `json:"yes,omitempty"`
}

const (
	maxSources  = 256
	maxExcludes = 256
	maxPath     = 4096
)

// Parse reads the params of a copy to the host, or from it. Errors are
// ErrBadParams.
func Parse(body []byte, toHost bool) (Copy, error) {
	var p Params
	if err := wire.Decode(body, &p); err != nil {
		return Copy{}, fmt.Errorf("%w: %w", ErrBadParams, err)
	}
	c := Copy{Sources: p.Sources, Dest: p.Dest, Choice: Choice{
		Exclude: p.Exclude, Flat: p.Recursive != nil && !*p.Recursive, Heavy: p.DefaultExcludes != nil && !*p.DefaultExcludes,
	}}
	if len(p.Sources) == 0 && p.Dest == "" && p.BoxPath != "" && p.HostPath != "" {
		c.Sources, c.Dest = []string{p.BoxPath}, p.HostPath
		if !toHost {
			c.Sources, c.Dest = []string{p.HostPath}, p.BoxPath
		}
	}
	return c, c.check()
}

func (c Copy) check() error {
	if len(c.Sources) == 0 || len(c.Sources) > maxSources {
		return fmt.Errorf("%w: it takes 1 to %d sources and a dest", ErrBadParams, maxSources)
	}
	if err := c.Choice.check(); err != nil {
		return err
	}
	for _, p := range append(slices.Clone(c.Sources), c.Dest) {
		if p == "" || len(p) > maxPath || strings.ContainsRune(p, 0) || !utf8.ValidString(p) {
			return fmt.Errorf("%w: a path is empty, longer than %d bytes or no text", ErrBadParams, maxPath)
		}
	}
	return nil
}

func (c Choice) check() error {
	if len(c.Exclude) > maxExcludes {
		return fmt.Errorf("%w: more than %d patterns to exclude", ErrBadParams, maxExcludes)
	}
	for _, p := range c.Exclude {
		if _, err := path.Match(p, "x"); strings.TrimSpace(p) == "" || len(p) > maxPath || err != nil {
			return fmt.Errorf("%w: a pattern to exclude is blank or malformed", ErrBadParams)
		}
	}
	return nil
}

// DefaultExcludes are folders that are heavy and made anew by a build.
func DefaultExcludes() []string {
	return []string{".git", "node_modules", "bin", "obj", "packages", "dist", ".next", "target"}
}

// Excludes tells whether what lies at rel, below a source, is left out. A pattern
// without a slash is held against the last name. Of the defaults only folders are
// left out.
func (c Choice) Excludes(rel string, folder bool) bool {
	if folder && (c.Flat || !c.Heavy && slices.Contains(DefaultExcludes(), path.Base(rel))) {
		return true
	}
	return slices.ContainsFunc(c.Exclude, func(pattern string) bool {
		pattern = strings.TrimSuffix(pattern, "/")
		name := rel
		if !strings.Contains(pattern, "/") {
			name = path.Base(rel)
		}
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// HostPath makes a path of the host absolute and clean: "~" is the user's home,
// and what is relative lies in the project, whichever folder the relay runs in.
func HostPath(raw, home, project string) (string, error) {
	switch {
	case filepath.IsAbs(raw):
	case raw == "~" || strings.HasPrefix(raw, "~/"):
		raw = filepath.Join(home, strings.TrimPrefix(raw, "~"))
	case project == "":
		return "", fmt.Errorf("%w: the box has no project that a relative path could lie in", ErrBadParams)
	default:
		raw = filepath.Join(project, raw)
	}
	if !filepath.IsAbs(raw) {
		return "", fmt.Errorf("%w: the path has no absolute form", ErrBadParams)
	}
	return filepath.Clean(raw), nil
}

// Within tells whether a clean absolute path is root or lies below it, and which
// way, "." for root itself.
func Within(root, name string) (rel string, ok bool) {
	rel, err := filepath.Rel(root, name)
	return rel, root != "" && err == nil && filepath.IsLocal(rel)
}

var (
	secretFolders = []string{".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".password-store"}
	secretNames   = []string{
		"credentials", ".npmrc", ".netrc", "_netrc", ".pgpass", ".htpasswd", ".git-credentials", ".pypirc", ".envrc", ".env",
		"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "terraform.tfstate",
	}
	secretEnds = []string{".pem", ".key", ".pfx", ".p12", ".p8", ".ppk", ".keystore", ".jks", ".tfvars", ".tfvars.json", ".kdbx"}
)

// LooksSecret tells whether a path has the name of a file that holds credentials,
// or lies in a folder of such.
func LooksSecret(name string) bool {
	names := redlist.Components(filepath.ToSlash(name))
	for i, n := range names {
		if slices.Contains(secretFolders, n) || i > 0 && names[i-1] == ".config" && (n == "gh" || n == "gcloud") {
			return true
		}
	}
	last := names[len(names)-1]
	return slices.Contains(secretNames, last) || strings.HasPrefix(last, ".env.") ||
		strings.HasPrefix(last, "service-account") && strings.HasSuffix(last, ".json") ||
		strings.HasPrefix(last, "service_account") && strings.HasSuffix(last, ".json") ||
		slices.ContainsFunc(secretEnds, func(end string) bool { return strings.HasSuffix(last, end) })
}
