package output

import (
	"strings"
	"unicode"

	"github.com/madarco/agentbox/core"
)

// maxLine bounds, in runes, a line that had to be quoted.
const maxLine = 2000

// Printable is text that may hold what an engine, a remote or a box said, with
// what could act on a terminal made visible. Line breaks stay; text that is
// known to be a box's is quoted before it gets here.
func Printable(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = Line(line)
	}
	return strings.Join(lines, "\n")
}

// Line is Printable for text that must stay on one line.
func Line(text string) string {
	if strings.ContainsFunc(text, acts) {
		return core.Untrusted(text).QuoteMax(maxLine)
	}
	return text
}

// acts tells whether a rune could do more than appear.
func acts(r rune) bool {
	return r == unicode.ReplacementChar || (!unicode.IsPrint(r) && r != '\t')
}
