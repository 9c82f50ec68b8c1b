package forge

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/outtext"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/hostexec"
)

// action finds the facts about a call, and what the user may be shown.
func (m *Method) action(ctx context.Context, gh hostexec.Program, box core.Box, record core.Repo, c *call) (relay.Action, error) {
	a := relay.Action{Kind: c.op.kind, Message: fmt.Sprintf("gh %s in %s", strings.ReplaceAll(c.Op, ".", " "), c.Repository)}
	show := &wire.ActionApproval{}
	fact := func(label, format string, args ...any) {
		show.Facts = append(show.Facts, wire.ActionFact{Label: label, Value: fmt.Sprintf(format, args...)})
	}
	fact("repository", "%s", c.Repository)
	var err error
	switch a.Kind {
	case policy.PRCreate:
		from, _ := c.get("--head")
		into, _ := c.get("--base")
		a.Facts.Own = own(record, from)
		fact("branch", "%s, %s", core.Untrusted(from).Quote(), whose(a.Facts.Own))
		fact("into", "%s", core.Untrusted(cmp.Or(into, string(record.DefaultBranch), "the default branch")).Quote())
		err = m.fillIn(ctx, gh, record, c)
	case policy.PRMerge:
		err = m.pin(ctx, gh, c, show, fact)
	case policy.RunRerun:
		job, _ := c.get("--job")
		var of string
		of, err = m.runBranch(ctx, gh, c.Repository, c.Target, job)
		a.Facts.Own = own(record, of)
		fact("run", "%s", core.Untrusted(cmp.Or(c.Target, "of job "+job)).Quote())
		fact("branch", "%s, %s", core.Untrusted(cmp.Or(of, "unknown")).Quote(), whose(a.Facts.Own))
	default:
		if c.Target != "" {
			fact("about", "%s", core.Untrusted(c.Target).Quote())
		}
	}
	if err != nil {
		return a, err
	}
	if c.op.write {
		if a.Facts.Speaks, err = m.judge(ctx, c, show); err != nil {
			return a, err
		}
		c.sign(box.Name)
		a.Show = show
	}
	a.Request = c.request
	return a, nil
}

func whose(own bool) string {
	if own {
		return "the box's own"
	}
	return "not the box's own"
}

// pin names what is merged by number and commit: what was shown is what is merged.
func (m *Method) pin(ctx context.Context, gh hostexec.Program, c *call, show *wire.ActionApproval, fact func(label, format string, args ...any)) error {
	pr, err := m.pullRequest(ctx, gh, c.Repository, c.Target)
	if err != nil {
		return err
	}
	c.Target = strconv.Itoa(pr.Number)
	c.Options = append(c.Options, matchHead(pr.HeadRefOid))
	fact("pull request", "%d, %s", pr.Number, core.Untrusted(strings.ToLower(pr.State)).Quote())
	fact("commit", "%s", core.ObjectID(pr.HeadRefOid).Short())
	fact("branch", "%s", core.Untrusted(pr.HeadRefName).Quote())
	fact("into", "%s", core.Untrusted(pr.BaseRefName).Quote())
	if _, auto := c.get("--auto"); auto {
		fact("when", "once its checks pass, with what is pushed until then")
	}
	show.Texts = append(show.Texts, wire.ActionText{Label: "title", Text: core.Untrusted(pr.Title)})
	return nil
}

// fillIn gives a pull request the title and text that gh would take from the
// commits, had it a repository; what the box gave stays.
func (m *Method) fillIn(ctx context.Context, gh hostexec.Program, record core.Repo, c *call) error {
	title, titled := c.get("--title")
	if c.fill == "" || titled && c.Text != "" {
		return nil
	}
	from, _ := c.get("--head")
	into, _ := c.get("--base")
	messages, err := m.commits(ctx, gh, c.Repository, cmp.Or(into, string(record.DefaultBranch)), from)
	if titled && (err != nil || len(messages) == 0) {
		return nil // a title is enough
	}
	if err != nil {
		return err
	}
	if len(messages) == 0 {
		return refuse(wire.ExitRefused, "the forge has no commit of %s beyond the base: push it first, or give --title", core.Untrusted(from).Quote())
	}
	filled, text := fill(messages, from, c.fill == "--fill-first")
	if !titled {
		title = strings.Map(oneLine, filled)
	}
	c.set("--title", title)
	c.Text = cmp.Or(c.Text, text)
	return nil
}

func oneLine(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// fill is gh's own rule: one commit speaks for itself, several are listed.
func fill(messages []string, head string, first bool) (title, text string) {
	if len(messages) == 1 || first {
		subject, rest, _ := strings.Cut(messages[0], "\n")
		return subject, strings.TrimSpace(rest)
	}
	var list strings.Builder
	for _, message := range messages {
		subject, _, _ := strings.Cut(message, "\n")
		fmt.Fprintf(&list, "- %s\n", subject)
	}
	return strings.NewReplacer("-", " ", "_", " ").Replace(head), list.String()
}

// judge tells whether what is said takes a question, and shows what that is.
func (m *Method) judge(ctx context.Context, c *call, show *wire.ActionApproval) (bool, error) {
	speaks := false
	say := func(label, text string) error {
		why := outtext.Trouble(text)
		if why == "" {
			known, err := m.holdsToken(ctx, text)
			if err != nil {
				return err
			}
			if known {
				why = outtext.Known
			}
		}
		if why != "" {
			speaks = true
			show.Facts = append(show.Facts, wire.ActionFact{Label: label, Value: why})
		}
		show.Texts = append(show.Texts, wire.ActionText{Label: label, Text: core.Untrusted(text)})
		return nil
	}
	for _, o := range c.Options {
		f, _ := c.op.flag(o.Name)
		label := strings.TrimLeft(o.Name, "-")
		if f.acts {
			speaks = true
			show.Facts = append(show.Facts, wire.ActionFact{Label: label, Value: "it makes others act"})
		}
		if slices.Contains([]string{"--head", "--base", "--method", matchHead("").Name}, o.Name) {
			continue
		}
		if f.value == nil {
			show.Facts = append(show.Facts, wire.ActionFact{Label: "option", Value: o.Name})
		} else if err := say(label, o.Value); err != nil {
			return false, err
		}
	}
	if c.Text == "" {
		return speaks, nil
	}
	return speaks, say("text", c.Text)
}

// sign adds the line that says where a text comes from.
func (c *call) sign(box core.BoxName) {
	if c.op.says == "" || c.Text == "" && c.op.says != bodyFile {
		return
	}
	line := "From the AgentBox box `" + string(box) + "`."
	if text := strings.TrimRight(c.Text, " \t\r\n"); text != "" {
		line = text + "\n\n---\n" + line
	}
	c.Text = line
}
