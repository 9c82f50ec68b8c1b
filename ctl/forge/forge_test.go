package forge

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// place is a box with one file, a standard input and some commits.
func place(messages ...string) Box {
	return Box{
		Open: func(name string) (io.ReadCloser, error) {
			text, ok := map[string]string{"f": "of a file", "-": "of stdin", "long": strings.Repeat("x", MaxText+1)}[name]
			if !ok {
				return nil, os.ErrNotExist
			}
			return io.NopCloser(strings.NewReader(text)), nil
		},
		Commits: func(base string) (string, []string, error) {
			if base == "gone" {
				return "", nil, errors.New("no such base")
			}
			return "fix-it", messages, nil
		},
	}
}

func TestParseSendsWhatTheRelayKnows(t *testing.T) {
	for line, want := range map[string]string{
		"pr create --title t --body b":                     "gh.pr.create||--title|t|--body|b",
		"pr create -t t --body-file f":                     "gh.pr.create||-t|t|--body=of a file",
		"pr create -t t -F -":                              "gh.pr.create||-t|t|--body=of stdin",
		"pr create -dFf -t t":                              "gh.pr.create||-d|--body=of a file|-t|t",
		"pr create --title -F --body f":                    "gh.pr.create||--title|-F|--body|f",
		"pr create --fill":                                 "gh.pr.create||--title=fix it|--body=- one\n- two",
		"pr create -fd":                                    "gh.pr.create||--title=fix it|--body=- one\n- two|-d",
		"pr create --fill-first":                           "gh.pr.create||--title=one|--body=why",
		"pr create --fill --title t":                       "gh.pr.create||--body=- one\n- two|--title|t",
		"pr create --fill --base gone":                     "gh.pr.create||--fill|--base|gone",
		"pr create --fill --head other":                    "gh.pr.create||--fill|--head|other",
		"pr view --json state --jq .state":                 "gh.pr.view||--json|state|--jq|.state",
		"pr checks":                                        "gh.pr.checks|",
		"pr list -L 5":                                     "gh.pr.list||-L|5",
		"pr close 12 -c bye":                               "gh.pr.close||12|-c|bye",
		"pr comment 12 --body hi":                          "gh.pr.comment||12|--body|hi",
		"pr comment --body-file=f -- 12":                   "gh.pr.comment||--body=of a file|--|12",
		"pr review 3 -a":                                   "gh.pr.review||3|-a",
		"run list -w ci.yml":                               "gh.run.list||-w|ci.yml",
		"run view 7 --log-failed":                          "gh.run.view||7|--log-failed",
		"run rerun 7 --failed":                             "gh.run.rerun||7|--failed",
		"api repos/{owner}/{repo}/pulls/1/comments":        "gh.api|repos/{owner}/{repo}/pulls/1/comments",
		"api -X POST repos/o/n/pulls/1/comments -f a=@f":   "gh.api|repos/o/n/pulls/1/comments|-X|POST|-f|a=@f",
		"api repos/o/n/pulls/1/comments -F body=@f":        "gh.api|repos/o/n/pulls/1/comments|--raw-field=body=of a file",
		"api repos/o/n/pulls/1/comments --field line=@-":   "gh.api|repos/o/n/pulls/1/comments|--raw-field=line=of stdin",
		"api --paginate repos/o/n/pulls/1/comments -q .[]": "gh.api|repos/o/n/pulls/1/comments|--paginate|-q|.[]",
	} {
		c, err := Parse(strings.Fields(line), place("one\n\nwhy", "two"))
		got := strings.Join(append([]string{c.Method, c.Endpoint}, c.Args...), "|")
		if err != nil || got != want || c.Clone != nil || c.Text != "" {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
}

func TestParseAnswersByItself(t *testing.T) {
	for line, want := range map[string]string{
		"": "asks the host", "--version": "asks the host", "help pr": "asks the host", "pr create --help": "gh pr",
		"auth status": "holds no token",
	} {
		if c, err := Parse(strings.Fields(line), place()); err != nil || !strings.Contains(c.Text, want) || c.Method != "" {
			t.Errorf("%q: %+v, %v", line, c, err)
		}
	}
}

func TestParseClones(t *testing.T) {
	for line, want := range map[string]string{
		"o/n":                     "clone -- https://github.com/o/n.git",
		"o/n dir -- --depth 1":    "clone --depth 1 -- https://github.com/o/n.git dir",
		"https://example.com/o/n": "clone -- https://example.com/o/n",
		"git@github.com:o/n.git":  "clone -- https://github.com/o/n.git",
		"n":                       "",
		"--upload-pack=x":         "",
		"ext::sh":                 "",
		"o/n -u":                  "",
		"":                        "",
		"file:///etc":             "",
	} {
		c, err := Parse(append([]string{"repo", "clone"}, strings.Fields(line)...), place())
		if got := strings.Join(c.Clone, " "); got != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"auth token": "no token", "auth login": "host's user", "auth": "pr", "pr": "view", "pr checkout 1": "git switch",
		"run watch 1": "run view", "secret list": "gh api", "-R o/n pr list": "gh api", "api": "address", "extension install x/y": "gh pr",
	} {
		if c, err := Parse(strings.Fields(line), place()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) || c.Method != "" {
			t.Errorf("%q: %+v, %v", line, c, err)
		}
	}
	for _, line := range []string{"pr create -t t -F none", "pr comment 1 -F long", "api a -F body=@none"} {
		if _, err := Parse(strings.Fields(line), place()); err == nil {
			t.Errorf("%q is taken", line)
		}
	}
}

// What is passed on names no file for the host to read, and no method that
// the table does not hold.
func FuzzParse(f *testing.F) {
	for _, line := range []string{"pr create -dF f", "api x -F a=@f", "pr review -- -F", "repo clone o/n", "pr view -c"} {
		f.Add(strings.ReplaceAll(line, " ", "\n"))
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\n")
		c, err := Parse(args, place("one"))
		if err != nil || c.Method == "" {
			return
		}
		op := strings.Split(strings.TrimPrefix(c.Method, "gh."), ".")
		if c.Method != "gh.api" && !slices.Contains(ops[op[0]], op[1]) {
			t.Fatalf("%q asks for %s", args, c.Method)
		}
		for _, w := range scan(c.Args, valued[strings.Join(op, " ")]) {
			if c.Method == "gh.pr.create" && (w.name == "-F" || w.name == "--body-file") {
				t.Fatalf("%q sends the name of a file: %q", args, c.Args)
			}
		}
	})
}
