package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
)

func TestSanction(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Home = shortHome(t) })
	id, key := g.box.ID, g.box.Repos[0].Key
	sanctioned := func() core.BranchName {
		reg, err := g.st.Box(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return reg.Box.Repos[0].Sanctioned
	}
	for _, tc := range []struct {
		body string
		code int
		want core.BranchName
	}{
		{`{"boxId":"` + id + `","branch":"feature/x"}`, 204, "feature/x"},
		{`{"boxId":"` + id + `","repoKey":"` + key + `","branch":"main"}`, 204, "main"},
		{`{"boxId":"` + id + `","branch":"--exec"}`, 400, "main"},
		{`{"boxId":"` + id + `","repoKey":"ffffffffffffffff","branch":"y"}`, 404, "main"},
		{`{"boxId":"bffffffff","branch":"y"}`, 404, "main"},
		{`{"boxId":"` + id + `","branch":"` + string(g.box.Repos[0].Branch) + `"}`, 204, ""},
		{`{"boxId":"` + id + `","branch":"z"}`, 204, "z"},
		{`{"boxId":"` + id + `"}`, 204, ""},
	} {
		if w := g.operate("POST", "/admin/sanction", tc.body); w.Code != tc.code || sanctioned() != tc.want {
			t.Errorf("%s: %d %s, sanctioned %q, want %q", tc.body, w.Code, w.Body, sanctioned(), tc.want)
		}
	}
	if n := len(slices.DeleteFunc(g.actions(), func(a string) bool { return !strings.HasSuffix(a, " box.sanction") })); n != 5 {
		t.Errorf("%d audit entries", n)
	}
}

// TestABoxCannotSanctionItself: not by the route, which its channel lacks, and
// not by what it says of itself.
func TestABoxCannotSanctionItself(t *testing.T) {
	g := newRig(t)
	if w := g.do("POST", "/admin/sanction", `{"boxId":"`+g.box.ID+`","branch":"main"}`); w.Code != 403 {
		t.Errorf("the route: %d %s", w.Code, w.Body)
	}
	params := map[string]string{"path": "/workspace", "branch": "main", "sanctionedBranch": "main"}
	if code, env := g.rpc("git.push", params); code == 200 && env.ExitCode == 0 {
		t.Errorf("a claim: %d, %+v", code, env)
	}
	reg, err := g.st.Box(t.Context(), g.box.ID)
	if err != nil || reg.Box.Repos[0].Sanctioned != "" || strings.Contains(strings.Join(g.actions(), " "), "box.sanction") {
		t.Errorf("%+v, %v", reg, err)
	}
}
