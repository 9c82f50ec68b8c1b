package state

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/madarco/agentbox/core"
)

func TestAnEasyNameIsFreeAsRecordContainerAndBranch(t *testing.T) {
	st := &State{Boxes: []core.Box{{ID: "b00000001", Name: "my-app", ProjectRoot: "/elsewhere", ProjectIndex: 9}}}
	held := map[core.BoxName]string{"my-app-2": "container agentbox-my-app-2", "my-app-3": "branch agentbox/my-app-3"}
	var asked []core.BoxName
	box, err := st.Reserve(Draft{Folder: "My App", ProjectRoot: "/p"}, func(n core.BoxName) (string, error) {
		asked = append(asked, n)
		return held[n], nil
	})
	if err != nil || box.Name != "my-app-4" || !box.Creating || box.ProjectIndex != 1 || !core.ValidBoxID(box.ID) {
		t.Errorf("got %+v, %v", box, err)
	}
	if want := []core.BoxName{"my-app-2", "my-app-3", "my-app-4"}; !slices.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}

func TestAChosenNameIsNeverChanged(t *testing.T) {
	st := &State{Boxes: []core.Box{{ID: "b00000001", Name: "app"}}}
	if _, err := st.Reserve(Draft{Name: "app"}, nobody); !errors.Is(err, ErrNameTaken) {
		t.Errorf("a record's name: %v", err)
	}
	branch := func(core.BoxName) (string, error) { return "branch agentbox/x", nil }
	if _, err := st.Reserve(Draft{Name: "x"}, branch); !errors.Is(err, ErrNameTaken) {
		t.Errorf("a branch's name: %v", err)
	}
	if len(st.Boxes) != 1 {
		t.Errorf("a refusal left a record: %v", st.Boxes)
	}
	sorry := errors.New("sorry")
	if _, err := st.Reserve(Draft{Folder: "y"}, func(core.BoxName) (string, error) { return "", sorry }); !errors.Is(err, sorry) {
		t.Error(err)
	}
}

func TestAnIndexIsNotReusedWhileAHigherOneLives(t *testing.T) {
	st := &State{}
	for want := 1; want <= 3; want++ {
		if box, err := st.Reserve(Draft{Folder: "a", ProjectRoot: "/p"}, nobody); err != nil || box.ProjectIndex != want {
			t.Fatalf("got %d, %v, want %d", box.ProjectIndex, err, want)
		}
	}
	st.Remove(st.Boxes[1].ID)
	box, err := st.Reserve(Draft{Folder: "a", ProjectRoot: "/p"}, nobody)
	if err != nil || box.ProjectIndex != 4 {
		t.Errorf("got %d, %v, want 4", box.ProjectIndex, err)
	}
	if other, _ := st.Reserve(Draft{Folder: "a", ProjectRoot: "/q"}, nobody); other.ProjectIndex != 1 {
		t.Errorf("another project begins at %d", other.ProjectIndex)
	}
}

func TestProjectRoot(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"yaml/repo/.git", "yaml/repo/deep/down", "repo/.git", "repo/sub", "plain/sub"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"yaml/agentbox.yaml"} {
		if err := os.WriteFile(filepath.Join(top, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("repo/sub", filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{
		"yaml/repo/deep/down": "yaml",
		"repo/sub":            "repo",
		"repo":                "repo",
		"plain/sub":           "plain/sub",
		"link":                "repo",
	} {
		got, err := ProjectRoot(filepath.Join(top, from))
		if err != nil || got != filepath.Join(top, want) {
			t.Errorf("%s: got %s, %v, want %s", from, got, err, want)
		}
	}
	if _, err := ProjectRoot(filepath.Join(top, "missing")); err == nil {
		t.Error("a folder that is missing has a project")
	}
}
