package complete

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/core"
)

func tree() *cli.Command {
	var j output.JSON
	return &cli.Command{
		Name: "agentbox",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "less"},
			&cli.BoolFlag{Name: "version", Local: true},
		},
		Commands: []*cli.Command{
			{Name: "create", Usage: "make a box", ArgsUsage: "[-- command…]", Flags: []cli.Flag{
				&cli.StringFlag{Name: "provider", Usage: "what makes it: `NAME`", Local: true},
				&cli.StringFlag{Name: "include", Usage: "this `FILE`", Local: true},
				&cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "its `NAME`", Local: true},
				&cli.GenericFlag{Name: "json", Value: &j, Usage: "print JSON", Local: true},
			}},
			{Name: "stop", Aliases: []string{"halt"}, Usage: "stop boxes", ArgsUsage: "[box…]"},
			{Name: "shell", Usage: "a terminal", ArgsUsage: "[box] [-- command…]"},
			{Name: "git", Usage: "git", Commands: []*cli.Command{{Name: "push", Usage: "push"}, {Name: "checkout", Usage: "go", ArgsUsage: "[box] <branch>"}}},
			{Name: "help", Usage: "explain", ArgsUsage: "[command… | exit-codes]"},
			{Name: "completion", Usage: "teach", ArgsUsage: "<shell>"},
			{Name: "secret", Hidden: true},
		},
	}
}

func source() Source {
	return Source{
		Boxes: func() ([]core.Box, string, error) {
			return []core.Box{
				{Name: "other", ProjectRoot: "/q"},
				{Name: "app", ProjectRoot: "/p", ProjectIndex: 1},
				{Name: "app-2", ProjectRoot: "/p", ProjectIndex: 2},
			}, "/p", nil
		},
		Values: map[string][]string{"--provider": {"docker"}, "shell": Shells},
	}
}

func TestLine(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{"", "create stop shell git help completion"},
		{"s", "stop shell"},
		{"x", ""},
		{"--", "--quiet --version"},
		{"git ", "push checkout"},
		{"git p", "push"},
		{"git push --", "--quiet --version"},
		{"create --", "--provider --include --name --json --quiet --version"},
		{"create --na", "--name"},
		{"create ", ""},
		{"create --provider ", "docker"},
		{"create --provider x", ""},
		{"create --provider docker --i", "--include"},
		{"create --include ", FilesWord},
		{"create --include some/f", FilesWord},
		{"create -n x --p", "--provider"},
		{"create --json --p", "--provider"},
		{"create -- ", ""},
		{"create -- ls --q", ""},
		{"stop ", "app app-2 other"},
		{"halt a", "app app-2"},
		{"stop app ", "app-2 other"},
		{"stop --quiet app app-2 ", "other"},
		{"shell ", "app app-2 other"},
		{"shell app ", ""},
		{"shell app x ", ""},
		{"git checkout a", "app app-2"},
		{"git checkout app ", ""},
		{"nobody ", ""},
		{"help ", "create stop shell git help completion"},
		{"help git ", "push checkout"},
		{"help nobody ", ""},
		{"completion ", "bash zsh fish"},
	} {
		var got []string
		for _, c := range Line(tree(), strings.Split(tc.line, " "), source()) {
			got = append(got, c.Word)
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%q: %q, want %q", tc.line, s, tc.want)
		}
	}
}

func TestAStateThatCannotBeReadCompletesNothing(t *testing.T) {
	from := Source{Boxes: func() ([]core.Box, string, error) { return nil, "", errors.New("damaged") }}
	if got := Line(tree(), []string{"stop", ""}, from); got != nil {
		t.Error(got)
	}
	if got := Line(tree(), nil, from); got != nil {
		t.Error(got)
	}
}

func TestAnExplanationIsOneLineWithoutControls(t *testing.T) {
	var b strings.Builder
	if err := Write(&b, []Candidate{{"app", "of /p\x1b[2J\n\tx"}}); err != nil || b.String() != `app	"of /p\u001b[2J\n\tx"`+"\n" {
		t.Errorf("%v, %q", err, b.String())
	}
}

func FuzzLine(f *testing.F) {
	f.Add("git checkout app")
	f.Add("create --name=x --provider -")
	f.Add("-")
	f.Fuzz(func(t *testing.T, text string) {
		words := strings.Split(text, " ")
		for _, c := range Line(tree(), words, source()) {
			if last := words[len(words)-1]; c.Word != FilesWord && !strings.HasPrefix(c.Word, last) {
				t.Errorf("%q completes %q", c.Word, last)
			}
		}
	})
}

// asked puts an agentbox on PATH that answers as ours does, and tells what a
// shell shows for a line.
func asked(t *testing.T, shell, program string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(shell); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir := t.TempDir()
	const answer = `#!/bin/sh
[ "$1" = __complete ] || exit 9
shift
case "$*" in
"stop ") printf 'app\tnumber 1: here\napp-2\tof /p\n' ;;
"stop app-") printf 'app-2\tof /p\n' ;;
"create --include no") printf ':files\t\n' ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "agentbox"), []byte(answer), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	for _, file := range []string{"notes one", "notes-two", "else"} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script, ok := Script(shell)
	if !ok {
		t.Fatal("no script")
	}
	if err := os.WriteFile(filepath.Join(dir, "completion"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(shell, append(args, "-c", program)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C.UTF-8", "TERM=dumb"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", shell, err, out)
	}
	return string(out)
}

func TestBash(t *testing.T) {
	const program = `
eval "$(cat completion)"
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _agentbox 2>&1; printf '%s;' "${COMPREPLY[@]}"; echo; }
complete -p agentbox
try agentbox stop ''
try agentbox stop app-
try agentbox create --include no
try agentbox nothing ''
`
	want := "complete -F _agentbox agentbox\napp;app-2;\napp-2;\nnotes one;notes-two;\n;\n"
	if got := asked(t, "bash", program, "--norc", "--noprofile"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFish(t *testing.T) {
	const program = `
source completion
complete -C 'agentbox stop '
complete -C 'agentbox stop app-'
complete -C 'agentbox create --include no'
`
	want := "app\tnumber 1: here\napp-2\tof /p\napp-2\tof /p\nnotes one\nnotes-two\n"
	if got := asked(t, "fish", program, "--no-config"); strings.ReplaceAll(got, `\ `, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestZsh stands in for zsh's own two functions, which work in its editor alone.
func TestZsh(t *testing.T) {
	const program = `
compdef() { print -r -- "compdef $*" }
_files() { print files }
_describe() { print -r -- "${(j:;:)${(P)2}}" }
eval "$(cat completion)"
try() { local words=("$@") CURRENT=$#; _agentbox }
try agentbox stop ''
try agentbox stop app-
try agentbox create --include no
`
	want := "compdef _agentbox agentbox\napp:number 1: here;app-2:of /p\napp-2:of /p\nfiles\n"
	if got := asked(t, "zsh", program, "-f"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
