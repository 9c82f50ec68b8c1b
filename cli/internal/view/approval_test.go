package view

import (
	"bytes"
	"testing"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
)

func TestAnApprovalIsDescribedWithItsFacts(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	update := wire.PushedRef{
		RefUpdate: policy.RefUpdate{Ref: "refs/heads/x", Old: core.ZeroID(40), New: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
		Facts: policy.Facts{
			Commits: 1, Files: 2, Subjects: []core.Untrusted{"a \x1b[31mred\nline"},
			Findings: []policy.Finding{{Rule: "a link into .git or out of the tree", Path: "l\x07"}},
		},
	}
	head := "a1  box web  land\n  asked 5s ago, expires in 1h\n  into your repository /p\n  refs/heads/x  new -> aaaaaaaaaaaa  1 commit, 2 files"
	tail := "\n    ! a link into .git or out of the tree: \"l\\u0007\"\n    the box says: \"a \\u001b[31mred\\nline\"\n"
	for reason, want := range map[string]string{"": head + tail, "it moved": head + ": it moved" + tail} {
		update.Reason = reason
		var b bytes.Buffer
		Describe(&b, Approval{
			ID: "a1", Box: "web", Message: "land", Created: now.Add(-5 * time.Second), Deadline: now.Add(time.Hour),
			Land: &wire.LandApproval{Project: "/p", Update: update},
		}, now)
		if b.String() != want {
			t.Errorf("with reason %q:\n%s\nwant:\n%s", reason, &b, want)
		}
	}
}
