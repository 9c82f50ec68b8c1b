// Package complete says which words may come next on a command line of
// agentbox, and holds what teaches a shell to ask.
//
// Invariants:
//   - It reads the tree of commands and the state file, asks no engine and no
//     relay, and changes nothing.
//   - Whatever stands on the line, it answers in lines of a word, a tab and a
//     short explanation, or in FilesWord alone; it never fails.
package complete

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/core"
)

// Ask is the first word of a line by which a shell asks; the words behind it
// are those of the line, the last one as far as it is typed.
const Ask = "__complete"

// FilesWord tells the shell to complete the name of a file.
const FilesWord = ":files"

// Candidate is a word that may come next, with what it means.
type Candidate struct{ Word, Means string }

// Source is where words come from that only the user's machine knows.
type Source struct {
	// Boxes are all boxes and the root of the current project.
	Boxes func() (all []core.Box, project string, err error)
	// Values are the words that a flag takes, by its name with the dashes, and
	// an argument, by what its help calls it.
	Values map[string][]string
}

// Line completes a line of the tree. The words stand without the program's
// name; the last is the one that is being typed.
func Line(tree *cli.Command, words []string, from Source) []Candidate {
	if len(words) == 0 {
		return nil
	}
	l := line{at: tree, tree: tree, from: from}
	for _, w := range words[:len(words)-1] {
		if !l.take(w) {
			return nil
		}
	}
	last := words[len(words)-1]
	var fit []Candidate
	for _, c := range l.next(last) {
		if c.Word == FilesWord || strings.HasPrefix(c.Word, last) {
			fit = append(fit, c)
		}
	}
	return fit
}

// line is what the words so far have led to.
type line struct {
	tree, at *cli.Command
	from     Source
	// waits is the flag whose value comes next.
	waits cli.Flag
	given []string // arguments
}

// take reads one more word; behind "--" nothing is ours to complete.
func (l *line) take(word string) bool {
	switch {
	case l.waits != nil:
		l.waits = nil
	case word == "--":
		return false
	case len(word) > 1 && word[0] == '-':
		name, _, glued := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if f := l.flag(name); f != nil && !glued && takesValue(f) {
			l.waits = f
		}
	case len(l.given) == 0 && l.at.Command(word) != nil:
		l.at = l.at.Command(word)
	default:
		l.given = append(l.given, word)
	}
	return true
}

func (l *line) flags() []cli.Flag {
	if l.at == l.tree {
		return l.tree.VisibleFlags()
	}
	return append(l.at.VisibleFlags(), l.tree.VisibleFlags()...)
}

func (l *line) flag(name string) cli.Flag {
	for _, f := range l.flags() {
		for _, n := range f.Names() {
			if n == name {
				return f
			}
		}
	}
	return nil
}

// takesValue tells whether a flag's value is a word of its own.
func takesValue(f cli.Flag) bool {
	if g, ok := f.(*cli.GenericFlag); ok {
		b, ok := g.Value.(interface{ IsBoolFlag() bool })
		return !ok || !b.IsBoolFlag()
	}
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

// next are the words that may come next; the one that is typed may be the
// start of any of them, or of none.
func (l *line) next(typed string) []Candidate {
	switch {
	case l.waits != nil:
		d, _ := l.waits.(cli.DocGenerationFlag)
		if what := placeholder(d.GetUsage()); what == "FILE" || what == "FOLDER" {
			return []Candidate{{FilesWord, ""}}
		}
		return l.values("--" + l.waits.Names()[0])
	case strings.HasPrefix(typed, "-"):
		return flagWords(l.flags())
	case len(l.given) == 0 && len(l.at.Commands) > 0:
		return commandWords(l.at)
	}
	return l.values(argument(l.at.ArgsUsage, len(l.given)))
}

func commandWords(at *cli.Command) []Candidate {
	var out []Candidate
	for _, c := range at.Commands {
		if !c.Hidden {
			out = append(out, Candidate{c.Name, c.Usage})
		}
	}
	return out
}

func flagWords(flags []cli.Flag) []Candidate {
	var out []Candidate
	seen := map[string]bool{}
	for _, f := range flags {
		d, _ := f.(cli.DocGenerationFlag)
		for _, name := range f.Names() {
			if len(name) > 1 && !seen[name] {
				seen[name] = true
				out = append(out, Candidate{"--" + name, strings.ReplaceAll(d.GetUsage(), "`", "")})
			}
		}
	}
	return out
}

// placeholder is the word in back quotes of a flag's help.
func placeholder(usage string) string {
	_, rest, _ := strings.Cut(usage, "`")
	word, _, _ := strings.Cut(rest, "`")
	return word
}

// argument is what the help calls the n-th argument: "[box] <branch>" has a
// box and a branch, "[box…]" any number of boxes.
func argument(usage string, n int) string {
	words := strings.Fields(usage)
	for i, w := range words {
		if strings.HasPrefix(w, "[--") {
			break
		}
		many := strings.Contains(w, "…")
		if i == n || many && i < n {
			return strings.Trim(w, "[]<>…")
		}
	}
	return ""
}

// values are the words for an argument or a flag.
func (l *line) values(what string) []Candidate {
	switch what {
	case "box":
		return l.boxes()
	case "command":
		return l.commandsBelow()
	}
	var out []Candidate
	for _, word := range l.from.Values[what] {
		out = append(out, Candidate{Word: word})
	}
	return out
}

// commandsBelow are the commands that the arguments so far lead to, as those
// of help do.
func (l *line) commandsBelow() []Candidate {
	at := l.tree
	for _, w := range l.given {
		if at = at.Command(w); at == nil {
			return nil
		}
	}
	return commandWords(at)
}

// boxes are the names of the boxes that the line does not hold yet, those of
// the current project first.
func (l *line) boxes() []Candidate {
	all, project, err := l.from.Boxes()
	if err != nil {
		return nil
	}
	given := map[string]bool{}
	for _, w := range l.given {
		given[w] = true
	}
	var here, elsewhere []Candidate
	for _, b := range all {
		switch {
		case given[string(b.Name)]:
		case b.ProjectRoot == project:
			here = append(here, Candidate{string(b.Name), fmt.Sprintf("number %d of this project", b.ProjectIndex)})
		default:
			elsewhere = append(elsewhere, Candidate{string(b.Name), "of " + b.ProjectRoot})
		}
	}
	return append(here, elsewhere...)
}
