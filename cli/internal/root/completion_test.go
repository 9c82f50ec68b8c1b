package root

import (
	"strings"
	"testing"
)

func TestTheTreeCompletes(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{"pau", "pause"},
		{"unp", "unpause"},
		{"git che", "checkout"},
		{"git pull --f", "--ff-only"},
		{"create --provider ", "docker"},
		{"completion f", "fish"},
		{"stop --help", "--help"}, // asked for, not obeyed
		{"list --nonsense ", ""},
	} {
		code, out, words := run(t, append([]string{"__complete"}, strings.Split(tc.line, " ")...)...)
		word, _, _ := strings.Cut(out, "\t")
		if code != 0 || words != "" || word != tc.want {
			t.Errorf("%q: %d, %q, %q", tc.line, code, out, words)
		}
	}
}

func TestCompletionPrintsTheScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, out, _ := run(t, "completion", shell); code != 0 || !strings.Contains(out, "__complete") {
			t.Errorf("%s: %d, %s", shell, code, out)
		}
	}
}
