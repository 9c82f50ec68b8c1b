package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/redlist"
	"github.com/madarco/agentbox/core/wire"
)

// Approval is a request that waits, or waited, for the user. Text that the box
// wrote stands only in fields of type core.Untrusted.
type Approval struct {
	ID       string               `json:"id"`
	Kind     string               `json:"kind"`
	Box      core.BoxName         `json:"box"`
	BoxID    string               `json:"boxId"`
	Method   string               `json:"method"`
	State    wire.ApprovalState   `json:"state"`
	Message  string               `json:"message"`
	Digest   string               `json:"digest"`
	Push     *wire.PushApproval   `json:"push,omitempty"`
	Land     *wire.LandApproval   `json:"land,omitempty"`
	Action   *wire.ActionApproval `json:"action,omitempty"`
	Created  time.Time            `json:"createdAt"`
	Deadline time.Time            `json:"deadline"`
}

// hostAction is the kind of approvals that the relay keeps; other kinds are
// questions of an agent's own interface.
const hostAction = "host-action"

// OfApproval is the view of an approval.
func OfApproval(a wire.Approval) Approval {
	return Approval{
		ID: a.ID, Kind: hostAction, Box: a.BoxName, BoxID: a.BoxID, Method: a.Method, State: a.State,
		Message: a.Message, Digest: a.Digest, Push: a.Push, Land: a.Land, Action: a.Action, Created: a.CreatedAt, Deadline: a.Deadline,
	}
}

// maxSubjects bounds how many commit subjects of a push are shown.
const maxSubjects = 5

// NextAnswer says what to do about what Describe showed.
const NextAnswer = "next: agentbox agent approve <id>, or agentbox agent approve <id> --deny --note <why>"

// Describe writes an approval for people: facts of ours first, then the box's
// own words, quoted and marked as such.
func Describe(w io.Writer, a Approval, now time.Time) {
	fmt.Fprintf(w, "%s  box %s  %s\n", output.Line(a.ID), output.Line(string(a.Box)), output.Line(a.Message))
	if a.State == wire.Expired {
		fmt.Fprintf(w, "  asked %s ago, expired: let the box try again, which asks anew\n", output.Age(now.Sub(a.Created)))
	} else {
		fmt.Fprintf(w, "  asked %s ago, expires in %s\n", output.Age(now.Sub(a.Created)), output.Age(a.Deadline.Sub(now)))
	}
	var updates []wire.PushedRef
	switch {
	case a.Push != nil:
		fmt.Fprintf(w, "  to %s (%s)\n", output.Line(string(a.Push.Remote)), output.Line(a.Push.RemoteURL))
		updates = a.Push.Updates
	case a.Land != nil:
		fmt.Fprintf(w, "  into your repository %s\n", output.Line(a.Land.Project))
		updates = []wire.PushedRef{a.Land.Update}
	case a.Action != nil:
		describeAction(w, a.Action)
	}
	for _, u := range updates {
		fmt.Fprintf(w, "  %s  %s -> %s  %s, %s%s\n", output.Line(u.Ref), output.Line(oldOf(u)), output.Line(u.New.Short()),
			count(u.Facts.Commits, "commit"), count(u.Facts.Files, "file"), because(u.Reason))
		RedList(w, u.Facts.RedList)
		ci(w, u.Facts.CI)
		for _, f := range u.Facts.Findings {
			fmt.Fprintf(w, "    ! %s: %s\n", output.Line(f.Rule), f.Path.Quote())
		}
		for i, s := range u.Facts.Subjects {
			if i == maxSubjects {
				break
			}
			fmt.Fprintf(w, "    the box says: %s\n", s.Quote())
		}
	}
}

// ci writes what a push would be the first to run at the remote.
func ci(w io.Writer, c policy.CI) {
	if !c.Unasked() {
		return
	}
	paths := make([]string, 0, len(c.Paths)+1)
	for _, p := range c.Paths {
		paths = append(paths, p.Quote())
	}
	if more := c.Count - len(c.Paths); more > 0 {
		paths = append(paths, fmt.Sprintf("%d more", more))
	}
	fmt.Fprintf(w, "    ! CI of the remote would run, from now on on every push of a box's own branch until it changes: %s\n", strings.Join(paths, ", "))
}

// describeAction writes our facts first, then the box's text, line by line so
// that none of it can pass for ours.
func describeAction(w io.Writer, a *wire.ActionApproval) {
	for _, f := range a.Facts {
		fmt.Fprintf(w, "  %s: %s\n", output.Line(f.Label), output.Line(f.Value))
	}
	for _, t := range a.Texts {
		lines := strings.Split(strings.TrimRight(string(t.Text), "\n"), "\n")
		for _, line := range lines[:min(len(lines), maxLines)] {
			fmt.Fprintf(w, "    %s, the box's words: %s\n", output.Line(t.Label), core.Untrusted(line).Quote())
		}
		if more := len(lines) - maxLines; more > 0 {
			fmt.Fprintf(w, "    %s: %s more; all of it with --json\n", output.Line(t.Label), count(more, "line"))
		}
	}
}

// maxLines bounds how much of a box's text is shown at once.
const maxLines = 20

// RedList writes what commits change that can make something run on the user's
// machine later: a line for each class that is hit.
func RedList(w io.Writer, groups []redlist.Group) {
	for _, g := range groups {
		paths := make([]string, 0, len(g.Paths)+1)
		for _, p := range g.Paths {
			paths = append(paths, p.Quote())
		}
		if more := g.Count - len(g.Paths); more > 0 {
			paths = append(paths, fmt.Sprintf("%d more", more))
		}
		fmt.Fprintf(w, "    ! changes %s: %s\n", output.Line(g.What), strings.Join(paths, ", "))
	}
}

// Done writes what came of a yes that the relay carried out itself. The error is
// fail.Failed where it came to nothing.
func Done(w io.Writer, done wire.Answered) error {
	if done.Failed {
		return fail.New(fail.Failed, "agentbox status", "it was approved, but: %s", output.Line(strings.TrimSpace(done.Result)))
	}
	if done.Result == "" {
		return nil
	}
	_, err := fmt.Fprintln(w, output.Line(strings.TrimSpace(done.Result)))
	return err
}

// because appends a reason; a landing that the user asked for has none.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + output.Line(reason)
}

func oldOf(u wire.PushedRef) string {
	if u.Old.IsZero() {
		return "new"
	}
	return u.Old.Short()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
