package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/madarco/agentbox/cli/internal/config"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/redlist"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/client"
)

// desk is a relay with approvals and the answers that it got.
type desk struct {
	factory.Relay
	waiting []wire.Approval
	answers []wire.Answer
	err     error
	done    wire.Answered
	asked   int
	arrives func(asked int) []wire.Approval
}

func (d *desk) Approvals(_ context.Context, boxID string) ([]wire.Approval, error) {
	d.asked++
	if d.arrives != nil {
		d.waiting = d.arrives(d.asked)
	}
	var out []wire.Approval
	for _, a := range d.waiting {
		if boxID == "" || a.BoxID == boxID {
			out = append(out, a)
		}
	}
	return out, nil
}

func (d *desk) Answer(_ context.Context, a wire.Answer) (wire.Answered, error) {
	d.answers = append(d.answers, a)
	return d.done, d.err
}

func (d *desk) open(context.Context) (factory.Relay, error) { return d, nil }

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const (
	oldOID = core.ObjectID("1111111111111111111111111111111111111111")
	newOID = core.ObjectID("2222222222222222222222222222222222222222")
)

func push(ref string, facts policy.Facts) wire.Approval {
	return wire.Approval{
		ID: "a-1", BoxID: "b00000001", BoxName: "app", Method: "git.push", Digest: "d1g", State: wire.Pending,
		Message: "push 1 commit to " + ref, CreatedAt: now.Add(-2 * time.Minute), Deadline: now.Add(3 * time.Hour),
		Push: &wire.PushApproval{
			RepoKey: "0123456789abcdef", Remote: "origin", RemoteURL: "https://example.test/x.git",
			Updates: []wire.PushedRef{{RefUpdate: policy.RefUpdate{Ref: ref, Old: oldOID, New: newOID}, Facts: facts, Reason: "not the box's branch"}},
		},
	}
}

var box = core.Box{ID: "b00000001", Name: "app", Repos: []core.Repo{{Key: "0123456789abcdef", Kind: "root", Branch: "agentbox/app", DefaultBranch: "main"}}}

func approve(d *desk, s *streams.Streams, allowed ...policy.Class) *ApproveOptions {
	return &ApproveOptions{
		Streams: s, Relay: d.open, ID: "a-1", Now: func() time.Time { return now },
		Boxes:  func() ([]core.Box, string, error) { return []core.Box{box}, "/p", nil },
		Config: func() (config.Config, error) { return config.Config{Unattended: allowed}, nil },
	}
}

func action(class policy.Class) wire.Approval {
	return wire.Approval{ID: "a-1", BoxID: "b00000001", Digest: "d1g", State: wire.Pending, Action: &wire.ActionApproval{Class: class}}
}

func TestAYesWithoutATerminalNeedsTheClassAndNeverAnswersWhatTakesAPerson(t *testing.T) {
	forward := policy.Facts{FastForward: true, Commits: 1, Files: 1}
	found := policy.Facts{FastForward: true, Findings: []policy.Finding{{Rule: "a workflow", Path: ".github/workflows/x.yml"}}}
	cases := []struct {
		what    string
		a       wire.Approval
		allowed []policy.Class
		ok      bool
	}{
		{"a branch, allowed", push("refs/heads/topic", forward), []policy.Class{policy.PushBranch}, true},
		{"a branch, nothing allowed", push("refs/heads/topic", forward), nil, false},
		{"a rewrite needs its own class", push("refs/heads/topic", policy.Facts{}), []policy.Class{policy.PushBranch}, false},
		{"the default branch", push("refs/heads/main", forward), policy.Classes, false},
		{"findings", push("refs/heads/topic", found), policy.Classes, false},
		{"another repository than the box's", func() wire.Approval {
			a := push("refs/heads/topic", forward)
			a.Push.RepoKey = "fedcba9876543210"
			return a
		}(), policy.Classes, false},
		{"an unknown box", func() wire.Approval {
			a := push("refs/heads/topic", forward)
			a.BoxID = "b99999999"
			return a
		}(), policy.Classes, false},
		{"one of two updates that takes a person", func() wire.Approval {
			a := push("refs/heads/topic", forward)
			a.Push.Updates = append(a.Push.Updates, push("refs/heads/main", forward).Push.Updates...)
			return a
		}(), policy.Classes, false},
		{"an action of its class", action(policy.GitHub), []policy.Class{policy.GitHub}, true},
		{"an action of another class", action(policy.GitHub), []policy.Class{policy.PushBranch, policy.CopyFiles}, false},
		{"an action without a class", action(""), policy.Classes, false},
		{"a landing", wire.Approval{ID: "a-1", BoxID: "b00000001", State: wire.Pending, Land: &wire.LandApproval{}}, policy.Classes, false},
		{"something that is no push", wire.Approval{ID: "a-1", BoxID: "b00000001", State: wire.Pending}, policy.Classes, false},
	}
	for _, tc := range cases {
		t.Run(tc.what, func(t *testing.T) {
			d := &desk{waiting: []wire.Approval{tc.a}}
			s, _, _, _ := streams.Test()
			err := RunApprove(t.Context(), approve(d, s, tc.allowed...))
			if tc.ok {
				if err != nil || len(d.answers) != 1 || d.answers[0].Answer != "y" || d.answers[0].Digest != tc.a.Digest {
					t.Errorf("answers %v, %v", d.answers, err)
				}
				return
			}
			if err == nil || fail.Of(err).Code != fail.Refused || len(d.answers) != 0 {
				t.Errorf("answers %v, %v", d.answers, err)
			}
		})
	}
}

func TestAPersonAnswersOnATerminal(t *testing.T) {
	d := &desk{waiting: []wire.Approval{push("refs/heads/main", policy.Facts{FastForward: true, Subjects: []core.Untrusted{"fix\x1b[2J"}})}}
	s, _, out, words := streams.Test()
	s.InTTY, s.ErrTTY = true, true
	if err := RunApprove(t.Context(), approve(d, s)); err != nil {
		t.Fatal(err)
	}
	if len(d.answers) != 1 || d.answers[0] != (wire.Answer{ID: "a-1", Answer: "y", Digest: "d1g"}) {
		t.Errorf("answers %v", d.answers)
	}
	if out.String() != "approval a-1: approved\n" || !strings.Contains(words.String(), `the box says: "fix\u001b[2J"`) {
		t.Errorf("data %q, words %q", out, words)
	}
}

func TestANoNeedsNoTerminal(t *testing.T) {
	d := &desk{waiting: []wire.Approval{push("refs/heads/main", policy.Facts{})}}
	s, _, out, _ := streams.Test()
	o := approve(d, s)
	o.Deny, o.Note = true, "use a pull request"
	if err := RunApprove(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if len(d.answers) != 1 || d.answers[0].Answer != "n" || d.answers[0].Note != "use a pull request" || out.String() != "approval a-1: denied\n" {
		t.Errorf("answers %v, data %q", d.answers, out)
	}
}

func TestAnAnswerThatComesTooLate(t *testing.T) {
	d := &desk{waiting: []wire.Approval{push("refs/heads/main", policy.Facts{})}, err: client.ErrNotFound}
	s, _, out, words := streams.Test()
	o := approve(d, s)
	o.Deny = true
	if err := RunApprove(t.Context(), o); err != nil || out.Len() != 0 || !strings.Contains(words.String(), "gone already") {
		t.Errorf("%v, %q, %q", err, out, words)
	}
	o.ID = "a-2"
	if err := RunApprove(t.Context(), o); fail.Of(err).Code != fail.Usage {
		t.Errorf("an unknown id: %v", err)
	}
	d.err = client.ErrConflict
	o.ID = "a-1"
	if err := RunApprove(t.Context(), o); !errors.Is(err, d.err) {
		t.Errorf("a failure: %v", err)
	}
}

func list(d *desk, s *streams.Streams) *ApprovalsOptions {
	return &ApprovalsOptions{
		Streams: s, Relay: d.open, Now: func() time.Time { return now },
		Box: func(string) (core.Box, error) { return box, nil },
	}
}

func TestApprovalsAreShownWithFactsOfOursFirst(t *testing.T) {
	a := push("refs/heads/main", policy.Facts{
		Commits: 2, Files: 1, Subjects: []core.Untrusted{"one", "two\n\u202ethree"},
		Findings: []policy.Finding{{Rule: "a workflow", Path: "x\ny"}},
	})
	settled := push("refs/heads/old", policy.Facts{})
	settled.State = wire.Denied
	d := &desk{waiting: []wire.Approval{a, settled}}
	s, _, out, words := streams.Test()
	if err := RunApprovals(t.Context(), list(d, s)); err != nil {
		t.Fatal(err)
	}
	want := `a-1  box app  push 1 commit to refs/heads/main
  asked 2m ago, expires in 3h
  to origin (https://example.test/x.git)
  refs/heads/main  111111111111 -> 222222222222  2 commits, 1 file: not the box's branch
    ! a workflow: "x\ny"
    the box says: "one"
    the box says: "two\n\u202ethree"
`
	if out.String() != want || !strings.Contains(words.String(), "next: agentbox agent approve") {
		t.Errorf("got %s\n%s", out, words)
	}
}

// TestTheRedListComesFirst, before findings and before a word of the box, in what
// is listed, in what is shown before an answer, and as fields.
func TestTheRedListComesFirst(t *testing.T) {
	a := push("refs/heads/main", policy.Facts{
		Commits: 1, Files: 9, Subjects: []core.Untrusted{"! changes nothing"}, Findings: []policy.Finding{{Rule: "a trap", Path: "x"}},
		RedList: []redlist.Group{
			{Class: redlist.Workflow, What: redlist.Workflow.What(), Count: 1, Paths: []core.Untrusted{".github/workflows/\x1b[2J\n.yml"}},
			{Class: redlist.Executable, What: redlist.Executable.What(), Count: 7, Paths: []core.Untrusted{"a", "b"}},
		},
	})
	const want = `9 files: not the box's branch
    ! changes CI workflows: ".github/workflows/\u001b[2J\n.yml"
    ! changes newly executable files: "a", "b", 5 more
    ! a trap: "x"
    the box says: "! changes nothing"
`
	d := &desk{waiting: []wire.Approval{a}}
	s, _, out, words := streams.Test()
	if err := RunApprovals(t.Context(), list(d, s)); err != nil || !strings.Contains(out.String(), want) {
		t.Errorf("%v: listed\n%s", err, out)
	}
	out.Reset()
	o := list(d, s)
	o.JSON = output.JSON{On: true, Fields: []string{"push"}}
	const fields = `"redList":[{"class":"workflow","count":1,"paths":[".github/workflows/\u001b[2J\n.yml"],"what":"CI workflows"},{"class":"executable",`
	if err := RunApprovals(t.Context(), o); err != nil || !strings.Contains(out.String(), fields) {
		t.Errorf("%v: as JSON\n%s", err, out)
	}
	yes := approve(d, s)
	yes.Deny = true
	if err := RunApprove(t.Context(), yes); err != nil || !strings.Contains(words.String(), want) {
		t.Errorf("%v: before an answer\n%s", err, words)
	}
}

func TestApprovalsOfOneBoxAsJSON(t *testing.T) {
	other := push("refs/heads/x", policy.Facts{})
	other.BoxID, other.ID = "b00000002", "a-2"
	d := &desk{waiting: []wire.Approval{push("refs/heads/main", policy.Facts{}), other}}
	s, _, out, _ := streams.Test()
	o := list(d, s)
	o.Ref, o.JSON = "app", output.JSON{On: true, Fields: []string{"id", "kind"}}
	if err := RunApprovals(t.Context(), o); err != nil || out.String() != `[{"id":"a-1","kind":"host-action"}]`+"\n" {
		t.Errorf("got %s, %v", out, err)
	}
}

func TestWaitingForAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{arrives: func(asked int) []wire.Approval {
			if asked < 4 {
				return nil
			}
			return []wire.Approval{push("refs/heads/main", policy.Facts{})}
		}}
		s, _, out, _ := streams.Test()
		o := list(d, s)
		o.Wait = time.Minute
		if err := RunApprovals(t.Context(), o); err != nil || !strings.HasPrefix(out.String(), "a-1") || d.asked != 4 {
			t.Errorf("%q, %v after %d", out, err, d.asked)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s, _, out, words := streams.Test()
		o := list(&desk{}, s)
		o.Wait = time.Minute
		began := time.Now()
		if err := RunApprovals(t.Context(), o); err != nil || out.Len() != 0 || words.String() != "nothing waits for you\n" || time.Since(began) != time.Minute {
			t.Errorf("%q, %q, %v after %s", out, words, err, time.Since(began))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(fail.ErrInterrupted)
		s, _, _, _ := streams.Test()
		o := list(&desk{}, s)
		o.Wait = time.Minute
		if err := RunApprovals(ctx, o); !errors.Is(err, fail.ErrInterrupted) {
			t.Error(err)
		}
	})
}
