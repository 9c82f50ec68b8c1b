package state

import (
	"errors"
	"slices"
	"testing"

	"github.com/madarco/agentbox/core"
)

var someBoxes = []core.Box{
	{ID: "b12300001", Name: "web", ProjectRoot: "/p", ProjectIndex: 2, Docker: &core.DockerBox{Container: "agentbox-web"}},
	{ID: "b12300002", Name: "api", ProjectRoot: "/p", ProjectIndex: 1},
	{ID: "b45600000", Name: "solo", ProjectRoot: "/q", ProjectIndex: 1},
	{ID: "b78900000", Name: "b12", ProjectRoot: "/r", ProjectIndex: 3},
	{ID: "b78900001", Name: "web-two", ProjectRoot: "/r", ProjectIndex: 4},
}

func TestResolveFindsTheBoxThatIsMeant(t *testing.T) {
	cases := []struct{ what, ref, root, want string }{
		{"the project's only box", "", "/q", "solo"},
		{"an index of this project", "1", "/p", "api"},
		{"another index", "2", "/p", "web"},
		{"an id", "b45600000", "/p", "solo"},
		{"the start of one id", "b4", "/p", "solo"},
		{"a name of another project", "solo", "/p", "solo"},
		{"a container", "agentbox-web", "/q", "web"},
		{"a name before the start of an id", "b12", "/p", "b12"},
	}
	for _, tc := range cases {
		t.Run(tc.what, func(t *testing.T) {
			box, err := Resolve(someBoxes, tc.ref, tc.root)
			if err != nil || string(box.Name) != tc.want {
				t.Errorf("got %s, %v, want %s", box.Name, err, tc.want)
			}
		})
	}
}

func TestResolveSaysWhyNot(t *testing.T) {
	cases := []struct {
		what, ref, root string
		want            RefFailure
		candidates      []string
	}{
		{"no box here", "", "/none", RefNone, nil},
		{"several here, by index", "", "/p", RefSeveral, []string{"api", "web"}},
		{"an index of another project", "3", "/p", RefBadIndex, []string{"api", "web"}},
		{"digits are no id prefix", "12", "/p", RefBadIndex, []string{"api", "web"}},
		{"an index beyond all numbers", "99999999999999999999", "/p", RefBadIndex, []string{"api", "web"}},
		{"an ambiguous prefix", "b123", "/p", RefAmbiguous, []string{"web", "api"}},
		{"a slip", "wbe", "/p", RefNotFound, []string{"web"}},
		{"the start of a name", "WE", "/p", RefNotFound, []string{"web", "web-two"}},
		{"nothing like it", "zzzzzz", "/p", RefNotFound, nil},
		{"an option", "--all", "/p", RefNotFound, nil},
	}
	for _, tc := range cases {
		t.Run(tc.what, func(t *testing.T) {
			_, err := Resolve(someBoxes, tc.ref, tc.root)
			var ref *RefError
			if !errors.As(err, &ref) || ref.Failure != tc.want {
				t.Fatalf("got %v, want %s", err, tc.want)
			}
			var names []string
			for _, b := range ref.Candidates {
				names = append(names, string(b.Name))
			}
			if !slices.Equal(names, tc.candidates) {
				t.Errorf("candidates %v, want %v", names, tc.candidates)
			}
			if ref.Error() == "" {
				t.Error("no words")
			}
		})
	}
}
