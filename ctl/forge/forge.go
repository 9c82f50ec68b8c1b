// Package forge reads what a tool in the box wants of the forge, in the words
// of gh.
//
// Invariants:
//   - It decides nothing: the relay judges every request anew, and reads the
//     options that this package passes on.
//   - Files that a text comes from are read here, in the box: the host is sent
//     text, never a name of a file.
//   - Words that mean no operation go nowhere, to no other gh either.
package forge

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
)

// MaxText is how many bytes of a file or of standard input are taken as a text;
// the relay takes no more in one request.
const MaxText = 40 << 10

// ErrRefused: the words ask for nothing that a box has gh for.
var ErrRefused = errors.New("not available in a box")

// Box is what gh would read of the place that it runs in.
type Box struct {
	// Open opens a file for a text; "-" is standard input.
	Open func(name string) (io.ReadCloser, error)
	// Commits are the branch that is checked out and the messages of what it has
	// beyond a base, oldest first; an empty base is the remote's default branch.
	Commits func(base string) (branch string, messages []string, err error)
}

// Command is what to do; one of Method, Clone and Text is set.
type Command struct {
	// Method, Endpoint and Args go to the relay.
	Method, Endpoint string
	Args             []string
	// Clone are arguments of git.
	Clone []string
	// Text is the whole answer.
	Text string
}

const about = `gh in this box is agentbox: it asks the host, whose gh holds the login.
  gh pr   view list diff checks create comment review merge close reopen
  gh run  list view rerun
  gh api  repos/{owner}/{repo}/pulls/<number>/comments
  gh repo clone
`

const login = `The login is the host's: this box holds no token of a forge.
What gh does here, the host's own gh does after its user's rules. Whether that
one is logged in shows when it is asked; its user logs in with 'gh auth login'.
`

// ops are the operations that the relay knows.
var ops = map[string][]string{
	"pr":  {"view", "list", "diff", "checks", "create", "comment", "review", "merge", "close", "reopen"},
	"run": {"list", "view", "rerun"},
}

// instead says what to use in place of what a box has no gh for.
var instead = map[string]string{
	"pr checkout": "fetch its branch: git fetch, then git switch <branch>",
	"pr status":   "use gh pr list and gh pr checks",
	"run watch":   "use gh run view <run>, again after a while",
	"auth token":  "no token is given to a box; gh, git push and git fetch work without one",
	"auth login":  "the host's user logs in there",
	"repo view":   "use git remote -v",
}

// Parse reads the arguments of gh. The error wraps ErrRefused, or says which
// file of the box can't be read.
func Parse(args []string, box Box) (Command, error) {
	if len(args) == 0 || slices.Contains([]string{"help", "--help", "-h", "version", "--version"}, args[0]) {
		return Command{Text: about}, nil
	}
	group, verb, rest := args[0], "", args[1:]
	if group == "api" {
		return api(rest, box)
	}
	if len(rest) > 0 {
		verb, rest = rest[0], rest[1:]
	}
	switch name := group + " " + verb; {
	case slices.Contains(rest, "--help") && slices.Contains(ops[group], verb):
		return Command{Text: about}, nil
	case name == "auth status":
		return Command{Text: login}, nil
	case name == "repo clone":
		return clone(rest)
	case slices.Contains(ops[group], verb):
		args, err := texts(name, rest, box)
		return Command{Method: "gh." + group + "." + verb, Args: args}, err
	default:
		hint, ok := instead[name]
		if !ok {
			hint = "gh has here:\n" + about[strings.Index(about, "\n")+1:]
		}
		return Command{}, fmt.Errorf("gh %s: %w; %s", core.Untrusted(strings.TrimSpace(name)).Quote(), ErrRefused, hint)
	}
}

// valued are the options with a value of the commands that take a text, so that
// no value is taken for an option.
var valued = map[string][]string{
	"pr create": {
		"--title", "-t", "--body", "-b", "--body-file", "-F", "--base", "-B", "--head", "-H", "--label", "-l",
		"--assignee", "-a", "--reviewer", "-r", "--milestone", "-m",
	},
	"pr comment": {"--body", "-b", "--body-file", "-F"},
	"pr review":  {"--body", "-b", "--body-file", "-F"},
	"api":        {"--method", "-X", "--raw-field", "-f", "--field", "-F", "--header", "-H", "--jq", "-q"},
}

// texts puts the text of files, and for --fill that of commits, in place of
// the options that ask for it.
func texts(name string, args []string, box Box) ([]string, error) {
	var out, fills []string
	given := map[string]string{}
	for _, w := range scan(args, valued[name]) {
		switch {
		case valued[name] != nil && (w.name == "--body-file" || w.name == "-F"):
			text, err := read(w.value, box)
			if err != nil {
				return nil, err
			}
			given["--body"] = text
			out = append(out, "--body="+text)
		case name == "pr create" && slices.Contains([]string{"--fill", "-f", "--fill-first"}, w.name):
			fills = append(fills, w.raw...)
		default:
			for _, pair := range [][2]string{{"--title", "-t"}, {"--body", "-b"}, {"--base", "-B"}, {"--head", "-H"}} {
				if w.name == pair[0] || w.name == pair[1] {
					given[pair[0]] = w.value
				}
			}
			out = append(out, w.raw...)
		}
	}
	if len(fills) == 0 {
		return out, nil
	}
	return append(fill(fills, given, box), out...), nil
}

// fill computes what --fill asks for from the box's commits. What it can't
// know here stays for the host, which asks the forge.
func fill(fills []string, given map[string]string, box Box) []string {
	if _, other := given["--head"]; other {
		return fills
	}
	branch, messages, err := box.Commits(given["--base"])
	if err != nil || len(messages) == 0 {
		return fills
	}
	title, body := "", ""
	if len(messages) == 1 || slices.Contains(fills, "--fill-first") {
		title, body, _ = strings.Cut(strings.TrimSpace(messages[0]), "\n")
	} else {
		title = strings.NewReplacer("-", " ", "_", " ").Replace(branch)
		for _, message := range messages {
			subject, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
			body += "- " + subject + "\n"
		}
	}
	var out []string
	if _, ok := given["--title"]; !ok {
		out = append(out, "--title="+title)
	}
	if _, ok := given["--body"]; !ok {
		out = append(out, "--body="+strings.TrimSpace(body))
	}
	return out
}

// api reads the arguments of gh api. The host knows {owner} and {repo}.
func api(args []string, box Box) (Command, error) {
	c := Command{Method: "gh.api"}
	for _, w := range scan(args, valued["api"]) {
		key, value, _ := strings.Cut(w.value, "=")
		switch {
		case w.name == "" && c.Endpoint == "":
			c.Endpoint = w.value
		case (w.name == "--field" || w.name == "-F") && strings.HasPrefix(value, "@"):
			text, err := read(value[1:], box)
			if err != nil {
				return Command{}, err
			}
			c.Args = append(c.Args, "--raw-field="+key+"="+text)
		default:
			c.Args = append(c.Args, w.raw...)
		}
	}
	if c.Endpoint == "" {
		return Command{}, fmt.Errorf("gh api: %w without an address, such as repos/{owner}/{repo}/pulls/1/comments", ErrRefused)
	}
	return c, nil
}

func read(name string, box Box) (string, error) {
	f, err := box.Open(name)
	if err != nil {
		return "", fmt.Errorf("read the text: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, MaxText+1))
	if err != nil {
		return "", fmt.Errorf("read the text: %w", err)
	}
	if len(text) > MaxText {
		return "", fmt.Errorf("read the text of %s: it is longer than %d bytes; shorten it", core.Untrusted(name).Quote(), MaxText)
	}
	return string(text), nil
}

var (
	slugForm = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]*/[A-Za-z0-9_.][A-Za-z0-9_.-]*$`)
	scpForm  = regexp.MustCompile(`^git@github\.com:`)
)

// clone turns gh repo clone into a plain git clone, which goes through the
// host's endpoint as every other does.
func clone(args []string) (Command, error) {
	places, flags := args, []string(nil)
	if i := slices.Index(args, "--"); i >= 0 {
		places, flags = args[:i], args[i+1:]
	}
	if len(places) < 1 || len(places) > 2 || slices.ContainsFunc(places, func(s string) bool { return s == "" || s[0] == '-' }) {
		return Command{}, fmt.Errorf("gh repo clone: %w but as: gh repo clone <owner>/<name> [folder] [-- git's own options]", ErrRefused)
	}
	address := scpForm.ReplaceAllString(places[0], "https://github.com/")
	switch {
	case slugForm.MatchString(address):
		address = "https://github.com/" + address + ".git"
	case !strings.HasPrefix(address, "https://"):
		return Command{}, fmt.Errorf("gh repo clone: %w for %s; name <owner>/<name> or an address of https", ErrRefused, core.Untrusted(address).Quote())
	}
	return Command{Clone: slices.Concat([]string{"clone"}, flags, []string{"--", address}, places[1:])}, nil
}
