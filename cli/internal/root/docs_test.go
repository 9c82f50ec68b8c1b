package root

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/docs"
)

// TestTheDocumentationKnowsEveryCommand holds docs/commands.md to the tree.
func TestTheDocumentationKnowsEveryCommand(t *testing.T) {
	data, err := docs.Pages.ReadFile("commands.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	f, _, _ := bare(t)
	every(New(f, idle{}), func(c *cli.Command) {
		if len(c.Commands) == 0 && !strings.Contains(page, "`"+c.Name) && !strings.Contains(page, " "+c.Name+"`") && !strings.Contains(page, " "+c.Name+" ") {
			t.Errorf("no word of %s", c.Name)
		}
	})
	for _, c := range fail.Codes {
		if !strings.Contains(page, fmt.Sprintf("\n| %d | ", c.Code)) {
			t.Errorf("no word of exit code %d", c.Code)
		}
	}
	for _, class := range policy.Classes {
		if !strings.Contains(page, "| `"+string(class)+"` |") {
			t.Errorf("no word of class %s", class)
		}
	}
}

// spoken finds the command lines of a page: behind a prompt, at the start of a
// line or of code within it.
var spoken = regexp.MustCompile("(?:^|[`(]|\\s)agentbox((?: +[^\\s`|()]+)+)")

// TestTheDocumentationNamesOnlyWhatExists follows every command line of every
// page down the tree: its commands and its options are there.
func TestTheDocumentationNamesOnlyWhatExists(t *testing.T) {
	f, _, _ := bare(t)
	tree := New(f, idle{})
	for name, text := range pages(t) {
		lines := 0
		for _, line := range codeOf(text) {
			for _, m := range spoken.FindAllStringSubmatch(line, -1) {
				lines++
				if wrong := misspoken(tree, strings.Fields(m[1])); wrong != "" {
					t.Errorf("%s: agentbox%s: %s", name, m[1], wrong)
				}
			}
		}
		if (name == "README.md" || name == "getting-started.md") && lines < 5 {
			t.Errorf("%s: only %d command lines were found", name, lines)
		}
	}
}

// TestMisspokenCommandsAreFound keeps the test above from passing for nothing.
func TestMisspokenCommandsAreFound(t *testing.T) {
	f, _, _ := bare(t)
	tree := New(f, idle{})
	for line, right := range map[string]bool{
		"git push <box> --force": true, "create -n name -- make --jobs": true, "claude start my-project": true, "list --json=name": true,
		"git psuh": false, "claude begni x": true /* a box may be called so */, "frob": false, "list --lal": false, "agent": true,
		"agent approval x": false, "create --from=v1 --use-brnch x": false, "shell -z": false, "help exit-codes": true, "--version": true,
	} {
		if wrong := misspoken(tree, strings.Fields(line)); (wrong == "") != right {
			t.Errorf("agentbox %s: %q", line, wrong)
		}
	}
}

// pages are the texts of the documentation by name, those at the root of the
// repository included.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	inside, err := fs.Glob(docs.Pages, "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range inside {
		data, err := fs.ReadFile(docs.Pages, name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(data)
	}
	outside, err := filepath.Glob(filepath.Join("..", "..", "..", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range outside {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(path)] = string(data)
	}
	if len(texts) < 6 {
		t.Fatalf("only %d pages were found", len(texts))
	}
	return texts
}

var (
	fenced = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")
	quoted = regexp.MustCompile("`[^`]+`")
)

// codeOf are the shell lines and the code within lines of a page.
func codeOf(text string) []string {
	var lines []string
	for _, m := range fenced.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(m[1]) {
			code, _, _ := strings.Cut(line, " #")
			lines = append(lines, code)
		}
	}
	prose := strings.ReplaceAll(fenced.ReplaceAllString(text, ""), "\n", " ")
	return append(lines, quoted.FindAllString(strings.ReplaceAll(prose, "```", ""), -1)...)
}

// misspoken says what of a command line there is not, "" if all of it is.
func misspoken(at *cli.Command, words []string) string {
	root := at
	for _, word := range words {
		name, isOption := strings.CutPrefix(word, "-")
		switch {
		case word == "--" || word == "&&" || strings.HasPrefix(word, "#"):
			return ""
		case isOption:
			name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
			has := func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }
			if name != "help" && !slices.ContainsFunc(at.Flags, has) && !slices.ContainsFunc(root.Flags, has) && !(at == root && name == "version") {
				return at.FullName() + " has no option " + word
			}
		case at.Name == "help":
			return ""
		default:
			i := slices.IndexFunc(at.Commands, func(c *cli.Command) bool { return slices.Contains(c.Names(), word) })
			if i < 0 && len(at.Commands) > 0 && (at == root || len(at.Flags) == 0) { // a group that is no command itself
				return at.FullName() + " has no command " + word
			} else if i < 0 {
				continue
			}
			at = at.Commands[i]
		}
	}
	return ""
}
