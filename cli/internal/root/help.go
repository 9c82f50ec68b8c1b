package root

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/core"
)

// groups order the commands of the top level in help.
var groups = []string{"Create & run", "Access", "Inspect", "Lifecycle", "Git & sync", "Advanced"}

// width is how long a line of help may be, in runes.
const width = 100

// help writes the page of a command.
func help(w io.Writer, c *cli.Command) error {
	var b strings.Builder
	if c.Root() == c {
		rootHelp(&b, c)
	} else {
		commandHelp(&b, c)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the help: %w", err)
	}
	return nil
}

func rootHelp(b *strings.Builder, c *cli.Command) {
	fmt.Fprintf(b, "%s - %s\n\nUsage: agentbox <command> [arguments]\n\nExample:\n", c.Name, c.Usage)
	b.WriteString("  cd my-project && agentbox create && agentbox shell\n")
	for _, group := range groups {
		var rows [][2]string
		for _, sub := range c.Commands {
			if sub.Category == group {
				rows = append(rows, [2]string{sub.Name, sub.Usage})
			}
		}
		section(b, group, rows)
	}
	section(b, "Everywhere", flagRows(c.VisibleFlags()))
	b.WriteString("\nMore: agentbox help <command>, agentbox help exit-codes\n")
}

func commandHelp(b *strings.Builder, c *cli.Command) {
	fmt.Fprintf(b, "%s - %s\n\nUsage: %s", c.FullName(), c.Usage, c.FullName())
	if len(c.Commands) > 0 {
		b.WriteString(" <command>")
	}
	if len(own(c)) > 0 {
		b.WriteString(" [options]")
	}
	if c.ArgsUsage != "" {
		b.WriteString(" " + c.ArgsUsage)
	}
	b.WriteByte('\n')
	if c.Description != "" {
		fmt.Fprintf(b, "\n%s\n", c.Description)
	}
	var rows [][2]string
	for _, sub := range c.Commands {
		rows = append(rows, [2]string{sub.Name, sub.Usage})
	}
	section(b, "Commands", rows)
	section(b, "Options", flagRows(own(c)))
}

// own are the flags of the command itself, without those of the root.
func own(c *cli.Command) []cli.Flag {
	var flags []cli.Flag
	for _, f := range c.VisibleFlags() {
		if local, ok := f.(cli.LocalFlag); ok && local.IsLocal() {
			flags = append(flags, f)
		}
	}
	return flags
}

// section writes rows of a name and what it means, aligned and clipped.
func section(b *strings.Builder, title string, rows [][2]string) {
	if len(rows) == 0 {
		return
	}
	longest := 0
	for _, row := range rows {
		longest = max(longest, utf8.RuneCountInString(row[0]))
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for _, row := range rows {
		fmt.Fprintln(b, clip(fmt.Sprintf("  %-*s  %s", longest, row[0], row[1])))
	}
}

// clip cuts a line at a word so that it fits.
func clip(line string) string {
	runes := []rune(line)
	if len(runes) <= width {
		return line
	}
	cut := string(runes[:width-2])
	return cut[:strings.LastIndexByte(cut, ' ')] + " …"
}

func flagRows(flags []cli.Flag) [][2]string {
	var rows [][2]string
	for _, f := range flags {
		names := ""
		for _, name := range f.Names() {
			dashes := "--"
			if len(name) == 1 {
				dashes = "-"
			}
			names += ", " + dashes + name
		}
		usage := ""
		if d, ok := f.(cli.DocGenerationFlag); ok {
			usage = d.GetUsage()
			if value := placeholder(usage); value != "" {
				names += " " + value
				usage = strings.Replace(usage, "`"+value+"`", value, 1)
			}
		}
		rows = append(rows, [2]string{names[2:], usage})
	}
	return rows
}

// placeholder is the word in back quotes of a flag's usage.
func placeholder(usage string) string {
	_, rest, _ := strings.Cut(usage, "`")
	word, _, closed := strings.Cut(rest, "`")
	if !closed {
		return ""
	}
	return word
}

// newHelp is the command `help`.
func newHelp(f *factory.Factory) *cli.Command {
	return &cli.Command{
		Name: "help", Category: "Advanced",
		Usage:     "explain a command, or the exit codes",
		ArgsUsage: "[command… | exit-codes]",
		Action: func(_ context.Context, c *cli.Command) error {
			at := c.Root()
			if c.Args().First() == "exit-codes" {
				return exitCodes(f.Streams.Out)
			}
			for _, word := range c.Args().Slice() {
				sub := at.Command(word)
				if sub == nil {
					return unknown(at, word)
				}
				at = sub
			}
			return help(f.Streams.Out, at)
		},
	}
}

func exitCodes(w io.Writer) error {
	var b strings.Builder
	b.WriteString("Exit codes of agentbox:\n\n")
	for _, c := range fail.Codes {
		fmt.Fprintf(&b, "  %3d  %s\n", c.Code, c.Meaning)
	}
	b.WriteString("\nCommands that run something in a box (shell, create -- …, run, the agents,\nattach, land, git) end with its code.\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the help: %w", err)
	}
	return nil
}

// unknown is a word that names no command below at.
func unknown(at *cli.Command, word string) error {
	next := at.FullName() + " --help"
	var names []string
	for _, sub := range at.Commands {
		names = append(names, sub.Names()...)
	}
	if whole := below(at, word); whole != "" {
		next = "did you mean: " + whole
	} else if near := nearest(names, word); near != "" {
		next = "did you mean: " + at.FullName() + " " + near
	}
	return fail.Usagef(next, "no command %s in %s", core.Untrusted(word).Quote(), at.FullName())
}

// below is the only command under those of at that has this very name, in
// full: who types push means git push, and no command that looks like it.
func below(at *cli.Command, word string) string {
	var found []string
	for _, group := range at.Commands {
		for _, c := range group.Commands {
			if slices.Contains(c.Names(), word) {
				found = append(found, c.FullName())
			}
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// misused words what the parser found wrong in the options of c.
func misused(c *cli.Command, err error) error {
	next := c.FullName() + " --help"
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		var names []string
		for _, f := range append(c.VisibleFlags(), c.Root().VisibleFlags()...) {
			names = append(names, f.Names()...)
		}
		if near := nearest(names, name); len(near) > 1 {
			next = "did you mean --" + near + "? " + next
		}
		return fail.Usagef(next, "%s has no option %s", c.FullName(), core.Untrusted(dashed(name)).Quote())
	}
	what, _, _ := strings.Cut(err.Error(), ": strconv.") // the parser's own words for what is no number
	return fail.Usagef(next, "%s: %s", c.FullName(), strings.Replace(what, " for flag -", " for option --", 1))
}

// dashed is an option as people write it.
func dashed(name string) string {
	if utf8.RuneCountInString(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// nearest is the name that word is a slip of, "" if there is none.
func nearest(names []string, word string) string {
	best, least := "", 3 // more than two slips are another word
	for _, name := range names {
		if d := core.EditDistance(name, word); d < least {
			best, least = name, d
		}
	}
	return best
}
