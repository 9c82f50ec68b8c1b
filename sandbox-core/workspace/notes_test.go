package workspace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/relay/gitgate"
)

func TestNotesNameSomeAndCountTheRest(t *testing.T) {
	c := &gitgate.Carry{Staged: 1, Untracked: 2, Notes: []string{"a sentence"}}
	for i := range maxLeftOut + 5 {
		c.LeftOut = append(c.LeftOut, gitgate.LeftOut{Path: core.Untrusted(fmt.Sprintf("f%d\x1b", i)), Reason: "why"})
	}
	got := describe("lib", c)
	if len(got) != maxLeftOut+3 || got[0] != `uncommitted work that the box got in "lib": 1 staged, 2 untracked` ||
		got[maxLeftOut+1] != `left out in "lib": 5 files more` || got[maxLeftOut+2] != `in "lib": a sentence` {
		t.Errorf("%q", got)
	}
	if strings.Contains(strings.Join(got, ""), "\x1b") {
		t.Error("a name acts on the terminal")
	}
}

func TestFilesToIncludeGoToTheRepositoryThatTheyLieIn(t *testing.T) {
	names := []string{".env", "lib/.env", "./lib/deep/x", "library/y", "../z"}
	for _, c := range []struct {
		dir          string
		nested, want []string
	}{
		{"", nil, []string{".env", "lib/.env", "lib/deep/x", "library/y", "../z"}},
		{"", []string{"lib", "lib/deep"}, []string{".env", "library/y", "../z"}},
		{"lib", []string{"deep"}, []string{".env"}},
		{"lib/deep", nil, []string{"x"}},
	} {
		if got := includedIn(c.dir, names, c.nested); !slices.Equal(got, c.want) {
			t.Errorf("in %q: %q, want %q", c.dir, got, c.want)
		}
	}
}

func TestStartingAtACommitNeedsARepository(t *testing.T) {
	git, home, dir := user(t)
	plain := t.TempDir()
	if _, err := Open(t.Context(), git, home, plain, Options{From: "main"}); !errors.Is(err, ErrNoRepository) {
		t.Errorf("a plain folder: %v", err)
	}
	p, err := Open(t.Context(), git, home, plain, Options{})
	if err != nil || len(p.Repos("agentbox/x")) != 0 {
		t.Errorf("a plain folder without it: %v", err)
	}
	if _, err := Open(t.Context(), git, home, dir, Options{From: "main"}); err != nil {
		t.Errorf("a repository: %v", err)
	}
}
