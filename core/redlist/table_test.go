package redlist

import (
	"slices"
	"strings"
	"testing"
)

// TestTheTableIsWellFormed: each name is found by what is looked for, and hits.
func TestTheTableIsWellFormed(t *testing.T) {
	t.Parallel()
	for _, row := range table {
		seen := map[string]bool{}
		for _, name := range row.names {
			switch {
			case name != fold(name) || name != strings.Trim(name, " "):
				t.Errorf("%q is not as it is looked for", name)
			case strings.Count(name, "*") > 1 || strings.Contains(name, "*") && strings.Contains(name, "/"):
				t.Errorf("%q: only names of files hold a star, and one", name)
			case seen[name]:
				t.Errorf("%q stands twice", name)
			}
			seen[name] = true
			file := strings.ReplaceAll(name, "*", "x")
			if strings.HasSuffix(name, "/") {
				file += "deep/below"
			}
			if !slices.Contains(Match(file), row.class) {
				t.Errorf("%q of %s does not hit", file, row.class)
			}
		}
	}
}
