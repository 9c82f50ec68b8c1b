package factory

import (
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/sandbox-core/state"
)

func TestSelect(t *testing.T) {
	home, project := core.Home(t.TempDir()), t.TempDir()
	f := &Factory{
		Home:  func() (core.Home, error) { return home, nil },
		Getwd: func() (string, error) { return project, nil },
	}
	root, err := f.Project("")
	if err != nil {
		t.Fatal(err)
	}
	err = state.Open(home).Update(t.Context(), func(s *state.State) error {
		s.Boxes = []core.Box{
			{ID: "b00000001", Name: "app", ProjectRoot: root, ProjectIndex: 1},
			{ID: "b00000002", Name: "app-2", ProjectRoot: root, ProjectIndex: 2},
			{ID: "b00000003", Name: "solo", ProjectRoot: "/elsewhere", ProjectIndex: 1},
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what string
		s    Selection
		want string
	}{
		{"all", Selection{All: true}, "app app-2 solo"},
		{"the project's", Selection{Project: true}, "app app-2"},
		{"by number, name and id", Selection{Refs: []string{"2", "solo", "b00000001"}}, "app-2 solo app"},
		{"each once", Selection{Refs: []string{"1", "app"}}, "app"},
		{"a slip in the last", Selection{Refs: []string{"1", "nobody"}}, "no box \"nobody\""},
		{"none where there are several", Selection{}, "2 boxes in project " + root},
	} {
		boxes, err := f.Select(tc.s)
		got := ""
		for _, b := range boxes {
			got += " " + string(b.Name)
		}
		if err != nil {
			got = " " + err.Error()
		}
		if got != " "+tc.want {
			t.Errorf("%s: got%s, want %s", tc.what, got, tc.want)
		}
	}
}
