package workspace

import (
	"fmt"
	"strings"

	"github.com/madarco/agentbox/relay/gitgate"
)

// maxLeftOut is how many files that stay on the host are named one by one.
const maxLeftOut = 20

// Notes say, for people, what Prepare took of the uncommitted work and what
// stays on the host.
func (p *Project) Notes() []string {
	var notes []string
	if p.folder {
		notes = append(notes, "this folder is in no git repository: the box has its files, and nothing of them comes back by itself; "+
			"for a branch that lands here: git init, git add -A, git commit -m start, and create anew")
		notes = append(notes, describe("", p.files)...)
	}
	notes = append(notes, p.notes...)
	var nested []string
	for _, part := range p.parts {
		if part.path != "" {
			nested = append(nested, part.path)
		}
		if part.repo.Partial {
			notes = append(notes, fmt.Sprintf("%s is a partial clone: what git has not fetched of its history is not in the box either", part.repo.WorkTree))
		}
		notes = append(notes, describe(part.path, part.carry)...)
	}
	if len(nested) > 0 {
		notes = append(notes, fmt.Sprintf("repositories below the project, each with a branch of its own: %q", nested))
	}
	return notes
}

// next is what to do about a file that was left out.
func next(l gitgate.LeftOut) string {
	if strings.HasSuffix(string(l.Path), "/") {
		return "make it a project of its own"
	}
	return "--include it if the box shall have it"
}

// describe says what was carried of one part, which lies at a path in the
// project.
func describe(at string, c *gitgate.Carry) []string {
	if c == nil {
		return nil
	}
	var parts, notes []string
	for _, n := range []struct {
		count int
		what  string
	}{
		{c.Staged, "staged"},
		{c.Unstaged, "unstaged"},
		{c.Deleted, "deleted"},
		{c.Untracked, "untracked"},
		{c.Conflicts, "in conflict"},
	} {
		if n.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	where := ""
	if at != "" {
		where = fmt.Sprintf(" in %q", at)
	}
	if len(parts) > 0 {
		notes = append(notes, "uncommitted work that the box got"+where+": "+strings.Join(parts, ", "))
	}
	for i, l := range c.LeftOut {
		if i == maxLeftOut {
			notes = append(notes, fmt.Sprintf("left out%s: %d files more", where, len(c.LeftOut)-i))
			break
		}
		notes = append(notes, fmt.Sprintf("left out%s: %s (%s); %s", where, l.Path.Quote(), l.Reason, next(l)))
	}
	for _, n := range c.Notes {
		if where != "" {
			n = strings.TrimPrefix(where, " ") + ": " + n
		}
		notes = append(notes, n)
	}
	return notes
}
