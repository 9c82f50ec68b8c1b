// Package args is what the parsers of all commands share.
package args

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/core"
)

// Count refuses a command line with fewer or more words than the command takes.
func Count(c *cli.Command, least, most int) error {
	n := c.Args().Len()
	switch {
	case n > most:
		return fail.Usagef(usage(c), "%s takes %s, and %s is one too many", c.FullName(), words(most), core.Untrusted(c.Args().Get(most)).Quote())
	case n < least:
		return fail.Usagef(usage(c), "%s needs %s", c.FullName(), words(least))
	}
	return nil
}

func words(n int) string {
	switch n {
	case 0:
		return "no argument"
	case 1:
		return "one argument"
	default:
		return strconv.Itoa(n) + " arguments"
	}
}

func usage(c *cli.Command) string { return c.FullName() + " --help" }

// NoTail refuses "--" where the command runs nothing in a box.
func NoTail(c *cli.Command, f *factory.Factory) error {
	if f.HasTail {
		return fail.Usagef(usage(c), "%s runs no command, so nothing may follow --", c.FullName())
	}
	return nil
}

// Words checks both: how many arguments there are, and that no "--" stands.
func Words(c *cli.Command, f *factory.Factory, least, most int) error {
	if err := Count(c, least, most); err != nil {
		return err
	}
	return NoTail(c, f)
}

// SelectionFlags are the flags of a command that takes several boxes.
func SelectionFlags(s *factory.Selection) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "project", Usage: "all boxes of this project", Destination: &s.Project, Local: true},
		&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "all boxes of all projects", Destination: &s.All, Local: true},
	}
}

// Select fills in the boxes that the line names, and refuses a line that says
// which boxes in more than one way.
func Select(c *cli.Command, f *factory.Factory, s *factory.Selection) error {
	s.Refs = c.Args().Slice()
	ways := 0
	for _, named := range []bool{len(s.Refs) > 0, s.Project, s.All} {
		if named {
			ways++
		}
	}
	if ways > 1 {
		return fail.Usagef(usage(c), "%s takes boxes, or --project, or --all: one of the three", c.FullName())
	}
	return NoTail(c, f)
}

// JSON is the --json flag, which fills j.
func JSON(j *output.JSON) cli.Flag {
	return &cli.GenericFlag{
		Name: "json", Value: j, Local: true,
		Usage: "print JSON; --json=a,b only these fields",
	}
}

// Wait reads a length of time: milliseconds as a bare number, or a Go
// duration such as 30s.
func Wait(s string) (time.Duration, error) {
	if ms, err := strconv.Atoi(s); err == nil && ms >= 0 && ms < 1<<31 {
		return time.Duration(ms) * time.Millisecond, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fail.Usagef("write it like 5000 (milliseconds), 30s or 5m", "%s is no length of time", core.Untrusted(s).Quote())
	}
	return d, nil
}

// maxRevision bounds the name of a commit, in bytes.
const maxRevision = 200

// Revision refuses what can't name a commit: a name or id, and gitrevisions(7)'
// ways to go back from it, is all that is taken. It begins like no option.
func Revision(s string) error {
	word := func(r rune) bool { return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) }
	other := func(r rune) bool { return !word(r) && !strings.ContainsRune("._/~^@{}-", r) }
	if s == "" || len(s) > maxRevision || !word(rune(s[0])) || strings.ContainsFunc(s, other) {
		return fail.Usagef("name a branch, a tag or a commit", "start from %s: %w", core.Untrusted(s).Quote(), core.ErrInvalid)
	}
	return nil
}

// Time reads a time, or how long ago it was; empty is the zero time.
func Time(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	ago, err := time.ParseDuration(text)
	if err != nil || ago < 0 {
		return time.Time{}, fail.Usagef("write it like 90s, 10m, 2h or 2026-01-02T15:04:05Z", "%s is no time", core.Untrusted(text).Quote())
	}
	return now.Add(-ago), nil
}
