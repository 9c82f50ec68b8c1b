package root

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/cmd/relay"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

var update = flag.Bool("update", false, "write the golden files")

// bare is a factory of an empty home, without an engine and without a relay.
func bare(t *testing.T) (f *factory.Factory, out, errOut func() string) {
	t.Helper()
	s, _, stdout, stderr := streams.Test()
	home, project := t.TempDir(), t.TempDir()
	gone := errors.New("there is none in this test")
	return &factory.Factory{
		Streams: s, Version: "v9.9.9", Now: time.Now,
		Getwd:        func() (string, error) { return project, nil },
		Home:         func() (core.Home, error) { return core.Home(home), nil },
		Provider:     func(string) (provider.Provider, error) { return nil, provider.ErrUnavailable },
		Relay:        func(context.Context) (factory.Relay, error) { return nil, gone },
		RunningRelay: func() (factory.Relay, error) { return nil, gone },
	}, stdout.String, stderr.String
}

// idle is a machine that no test here may reach.
type idle struct{ Machine }

func (idle) Daemon() relay.Daemon { return nil }

func run(t *testing.T, line ...string) (code int, out, errOut string) {
	t.Helper()
	f, stdout, stderr := bare(t)
	code = Run(t.Context(), f, idle{}, append([]string{"agentbox"}, line...))
	return code, stdout(), stderr()
}

// every visits all commands of the tree.
func every(c *cli.Command, visit func(*cli.Command)) {
	visit(c)
	for _, sub := range c.Commands {
		every(sub, visit)
	}
}

func TestHelpPages(t *testing.T) {
	f, _, _ := bare(t)
	var lines [][]string
	var walk func(c *cli.Command, path []string)
	walk = func(c *cli.Command, path []string) {
		lines = append(lines, path)
		for _, sub := range c.Commands {
			walk(sub, append(slices.Clone(path), sub.Name))
		}
	}
	walk(New(f, idle{}), nil)
	for _, line := range lines {
		name := strings.Join(append([]string{"agentbox"}, line...), "-")
		t.Run(name, func(t *testing.T) {
			code, page, words := run(t, append(line, "--help")...)
			if code != 0 || words != "" {
				t.Fatalf("code %d, %s", code, words)
			}
			golden(t, name+".txt", page)
			for l := range strings.Lines(page) {
				if utf8.RuneCountInString(strings.TrimSuffix(l, "\n")) > width {
					t.Errorf("too long: %s", l)
				}
			}
			if _, same, _ := run(t, append([]string{"help"}, line...)...); same != page {
				t.Error("the help command shows another page")
			}
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

func TestEveryCommandHasAGroupAndWords(t *testing.T) {
	f, _, _ := bare(t)
	tree := New(f, idle{})
	for _, c := range tree.Commands {
		if !slices.Contains(groups, c.Category) {
			t.Errorf("%s is in no group of help: %q", c.Name, c.Category)
		}
	}
	every(tree, func(c *cli.Command) {
		if c.Usage == "" || strings.HasSuffix(c.Usage, ".") {
			t.Errorf("%s: usage %q", c.FullName(), c.Usage)
		}
	})
}

func TestFlagsAreNotInherited(t *testing.T) {
	f, _, _ := bare(t)
	tree := New(f, idle{})
	every(tree, func(c *cli.Command) {
		for _, flag := range c.Flags {
			local, ok := flag.(cli.LocalFlag)
			if c != tree && (!ok || !local.IsLocal()) {
				t.Errorf("%s: --%s reaches the commands below it", c.FullName(), flag.Names()[0])
			}
		}
	})
}

func TestBadCommandLines(t *testing.T) {
	cases := []struct {
		line []string
		want string
	}{
		{[]string{"lsit"}, "error: no command \"lsit\" in agentbox\nnext: did you mean: agentbox list\n"},
		{[]string{"frobnicate"}, "error: no command \"frobnicate\" in agentbox\nnext: agentbox --help\n"},
		{[]string{"push"}, "error: no command \"push\" in agentbox\nnext: did you mean: agentbox git push\n"},
		{[]string{"approve", "x"}, "error: no command \"approve\" in agentbox\nnext: did you mean: agentbox agent approve\n"},
		{[]string{"git", "psuh"}, "error: no command \"psuh\" in agentbox git\nnext: did you mean: agentbox git push\n"},
		{[]string{"list", "extra"}, "error: agentbox list takes no argument, and \"extra\" is one too many\nnext: agentbox list --help\n"},
		{[]string{"list", "--bogus"}, "error: agentbox list has no option \"--bogus\"\nnext: agentbox list --help\n"},
		{[]string{"create", "--nam", "x"}, "error: agentbox create has no option \"--nam\"\nnext: did you mean --name? agentbox create --help\n"},
		{[]string{"lsit", "--all"}, "error: no command \"lsit\" in agentbox\nnext: did you mean: agentbox list\n"},
		{[]string{"relay", "serve", "--port", "abc"}, "error: agentbox relay serve: invalid value \"abc\" for option --port\nnext: agentbox relay serve --help\n"},
		{[]string{"list", "--", "ls"}, "error: agentbox list runs no command, so nothing may follow --\nnext: agentbox list --help\n"},
		{[]string{"list", "--json=nope"}, `{"error":{"code":2,"message":"unknown field \"nope\" for --json"`},
		{[]string{"stop", "--all", "--project"}, "error: agentbox stop takes boxes, or --project, or --all: one of the three\nnext: agentbox stop --help\n"},
		{[]string{"pause", "--all", "app"}, "error: agentbox pause takes boxes, or --project, or --all: one of the three\nnext: agentbox pause --help\n"},
		{[]string{"completion", "tcsh"}, "error: no completion for \"tcsh\"\nnext: shells: bash, zsh, fish\n"},
		{[]string{"shell", "--"}, "error: no command behind --\nnext: agentbox shell [box] -- ls -l\n"},
		{[]string{"shell", "a", "b"}, "error: agentbox shell takes one box; a command for it goes behind --\nnext: agentbox shell [box] -- command…\n"},
		{[]string{"agent", "approve"}, "error: agentbox agent approve needs one argument\nnext: agentbox agent approve --help\n"},
		{[]string{"agent", "approvals", "--wait", "soon"}, "error: \"soon\" is no length of time\nnext: write it like 5000 (milliseconds), 30s or 5m\n"},
		{[]string{"git", "push", "--branch=--force"}, "error: branch name \"--force\": invalid: use letters, digits and . _ / -, starting with a letter or digit, at most 100 bytes\n"},
		{[]string{"create", "extra", "words"}, "error: agentbox create takes no argument; a name goes behind --name, a command behind --\nnext: agentbox create --help\n"},
		{[]string{"create", "--name", "a/b"}, "error: box name \"a/b\": invalid: use 1 to 40 lower-case letters, digits and dashes, without a dash at either end\n"},
		{[]string{"create", "--name", ""}, "error: the name is empty\n"},
		{[]string{"create", "--name", "hub"}, "error: box name \"hub\": invalid: the name is reserved\n"},
		{[]string{"create", "--provider", "dockr"}, "error: no provider \"dockr\"\nnext: providers: docker\n"},
		{[]string{"create", "--"}, "error: no command behind --\nnext: agentbox create -- make test\n"},
		{[]string{"relay", "serve", "--port", "70000"}, "error: port 70000: a port lies between 0 and 65535\n"},
		{[]string{"relay", "forget"}, "error: which box shall the relay forget?\nnext: agentbox relay forget --help\n"},
		{[]string{"help", "\x1b[2J"}, "error: no command \"\\u001b[2J\" in agentbox\nnext: agentbox --help\n"},
		{[]string{"status", "7", "--json"}, `{"error":{"code":2,"message":"no box number 7 in project `},
	}
	for _, tc := range cases {
		t.Run(strings.Join(tc.line, " "), func(t *testing.T) {
			code, out, words := run(t, tc.line...)
			if code != 2 || out != "" || !strings.HasPrefix(words, tc.want) {
				t.Errorf("code %d, data %q, words %q", code, out, words)
			}
		})
	}
}

func TestAnEmptyHome(t *testing.T) {
	code, out, words := run(t, "list", "--json")
	if code != 0 || out != "[]\n" || words != "" {
		t.Errorf("list --json: %d, %q, %q", code, out, words)
	}
	code, out, words = run(t, "list")
	if code != 0 || out != "" || !strings.Contains(words, "agentbox create") {
		t.Errorf("list: %d, %q, %q", code, out, words)
	}
	if _, _, words = run(t, "list", "--quiet"); words != "" {
		t.Errorf("list --quiet: %q", words)
	}
}

func TestVersionAndExitCodes(t *testing.T) {
	for _, line := range [][]string{{"version"}, {"--version"}, {"-V"}} {
		if code, out, _ := run(t, line...); code != 0 || out != "v9.9.9\n" {
			t.Errorf("%v: %d, %q", line, code, out)
		}
	}
	if _, out, _ := run(t, "version", "--json"); out != `{"version":"v9.9.9"}`+"\n" {
		t.Error(out)
	}
	_, out, _ := run(t, "help", "exit-codes")
	golden(t, "exit-codes.txt", out)
}
