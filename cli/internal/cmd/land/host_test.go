package land

import (
	"slices"
	"strings"
	"testing"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/redlist"
	"github.com/madarco/agentbox/core/wire"
)

// TestAPushToTheHost: a new name goes unasked, and nothing of the user's moves
// without a question.
func TestAPushToTheHost(t *testing.T) {
	old, zero := core.ObjectID(strings.Repeat("1", 40)), core.ZeroID(40)
	red := []redlist.Group{{Class: redlist.Hook, What: redlist.Hook.What(), Count: 1, Paths: []core.Untrusted{".husky/\x1bx"}}}
	held := []policy.Finding{{Rule: "a repository in a folder"}}
	for _, tc := range []struct {
		what            string
		old             core.ObjectID
		facts           policy.Facts
		force, terminal bool
		typed, shown    string
		answers         []string
		code            fail.Code
	}{
		{what: "a new name", old: zero, facts: policy.Facts{FastForward: true}, answers: []string{"y"}},
		{what: "a new name with a change of the red list", old: zero, facts: policy.Facts{FastForward: true, RedList: red}, answers: []string{"y"}, shown: "    ! changes git hooks: \".husky/\\u001bx\"\n"},
		{what: "a new name with a finding", old: zero, facts: policy.Facts{FastForward: true, Findings: held}, code: fail.Refused},
		{what: "a branch of the user's, forward", old: old, facts: policy.Facts{FastForward: true}, code: fail.Refused},
		{what: "the same with a yes", old: old, facts: policy.Facts{FastForward: true}, terminal: true, typed: "y\n", answers: []string{"y"}},
		{what: "the same with a no", old: old, facts: policy.Facts{FastForward: true}, terminal: true, typed: "\n", answers: []string{"n"}},
		{what: "commits that go away", old: old, terminal: true, typed: "y\n", code: fail.Refused},
		{what: "commits that go away, by force", old: old, force: true, code: fail.Refused},
		{what: "the same with a yes", old: old, force: true, terminal: true, typed: "y\n", answers: []string{"y"}},
	} {
		t.Run(tc.what, func(t *testing.T) {
			d := &desk{}
			u := wire.PushedRef{RefUpdate: policy.RefUpdate{Ref: "refs/heads/review", Old: tc.old, New: tip}, Facts: tc.facts}
			d.asked.Approval = &wire.Approval{ID: "a1", Digest: "d1", Method: "git.land", Land: &wire.LandApproval{Update: u}}
			d.asked.Landing = wire.Landing{Branch: "review", New: tip}
			s, in, _, words := streams.Test()
			s.InTTY, s.ErrTTY = tc.terminal, tc.terminal
			in.WriteString(tc.typed)
			o := options(d, s)
			o.Host, o.Force, o.As = true, tc.force, "review"
			err := Run(t.Context(), o)
			code := fail.OK
			if err != nil {
				code = fail.Of(err).Code
			}
			var got []string
			for _, a := range d.answers {
				if got = append(got, a.Answer); a.ID != "a1" || a.Digest != "d1" {
					t.Errorf("answered %+v", a)
				}
			}
			if !strings.Contains(words.String(), tc.shown) {
				t.Errorf("shown %q; want %q", words, tc.shown)
			}
			if code != tc.code || !slices.Equal(got, tc.answers) || d.as != "review" {
				t.Errorf("code %d, answers %q, as %q: %v", code, got, d.as, err)
			}
		})
	}
}
