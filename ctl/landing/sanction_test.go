package landing

import (
	"slices"
	"testing"

	"github.com/madarco/agentbox/core"
)

func TestSanction(t *testing.T) {
	dir := t.TempDir()
	if err := Sanction(dir, "", "dev"); err == nil {
		t.Error("a box without repositories took a branch")
	}
	root, nested := Repo{Key: "a", Branches: []core.BranchName{"agentbox/x"}}, Repo{Key: "b", Branches: []core.BranchName{"agentbox/x", "old"}}
	if err := WriteList(dir, []Repo{root, nested}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		key    string
		branch core.BranchName
		fails  bool
		want   []core.BranchName // of b
	}{
		{"b", "dev", false, []core.BranchName{"agentbox/x", "dev"}},
		{"b", "main", false, []core.BranchName{"agentbox/x", "main"}},
		{"c", "dev", true, []core.BranchName{"agentbox/x", "main"}},
		{"", "dev", true, []core.BranchName{"agentbox/x", "main"}}, // which of the two?
		{"b", "agentbox/x", false, []core.BranchName{"agentbox/x"}},
	} {
		err := Sanction(dir, tc.key, tc.branch)
		repos, readErr := ReadList(dir)
		if (err != nil) != tc.fails || readErr != nil || !slices.Equal(repos[1].Branches, tc.want) || len(repos[0].Branches) != 1 {
			t.Errorf("%q %s: %v, %v, %+v", tc.key, tc.branch, err, readErr, repos)
		}
	}
}
