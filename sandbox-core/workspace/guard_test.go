package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/madarco/agentbox/core"
)

func TestAProjectThatIsTooWideIsRefused(t *testing.T) {
	top := t.TempDir()
	join := func(parts ...string) string { return filepath.Join(append([]string{top}, parts...)...) }
	for _, dir := range []string{"home/user/code/app", "home/user2", "srv/state/boxes", "srv/app"} {
		if err := os.MkdirAll(join(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"to-home": join("home/user"), "link-home": join("home/user"), "to-srv": join("srv")} {
		if err := os.Symlink(target, join(link)); err != nil {
			t.Fatal(err)
		}
	}
	cases := []struct {
		what, project, userHome, state string
		refused                        bool
	}{
		{"a project in the home folder", "home/user/code/app", "home/user", "home/user/.agentbox", false},
		{"a sibling whose name begins the same", "home/user2", "home/user", "home/user/.agentbox", false},
		{"the home folder", "home/user", "home/user", "srv/state", true},
		{"above the home folder", "home", "home/user", "srv/state", true},
		{"everything", "", "home/user", "srv/state", true},
		{"the home folder through a link", "to-home", "home/user", "srv/state", true},
		{"a home folder that is a link", "home/user", "link-home", "srv/state", true},
		{"what holds the state", "srv", "home/user", "srv/state", true},
		{"what holds a state that is not made yet", "srv/app", "home/user", "srv/app/new/state", true},
		{"what holds the state through a link", "srv", "home/user", "to-srv/state", true},
		{"a folder in the state", "srv/state/boxes", "home/user", "srv/state", true},
		{"beside the state", "srv/app", "home/user", "srv/state", false},
	}
	for _, tc := range cases {
		t.Run(tc.what, func(t *testing.T) {
			err := Guard(join(tc.project), join(tc.userHome), core.Home(join(tc.state)))
			if errors.Is(err, ErrTooWide) != tc.refused || (err != nil) != tc.refused {
				t.Errorf("got %v, refused should be %v", err, tc.refused)
			}
		})
	}
	if err := Guard("/", join("home/user"), core.Home(join("srv/state"))); !errors.Is(err, ErrTooWide) {
		t.Errorf("the root folder: %v", err)
	}
	if err := Guard(join("missing"), "/x", "/y"); err == nil || errors.Is(err, ErrTooWide) {
		t.Errorf("a missing folder: %v", err)
	}
}
