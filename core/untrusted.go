package core

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Untrusted is text that a box could choose: a commit subject, a file name, an
// error of a program in the box. It never reaches a terminal, a page or a log
// as it is, only through Quote or QuoteMax.
type Untrusted string

// QuoteLimit is how many runes Quote keeps before it cuts.
const QuoteLimit = 200

// Quote renders the text on one line in double quotes, at most QuoteLimit
// runes long; see QuoteMax.
func (u Untrusted) Quote() string { return u.QuoteMax(QuoteLimit) }

// QuoteMax renders the text on one line in double quotes. Controls, format
// characters (bidi, zero width), private-use runes, spaces other than U+0020
// and invalid UTF-8 become visible escapes, so that what is shown can neither
// move the cursor nor read as something else. What exceeds limit runes is cut,
// and the count of what was cut stands after the closing quote.
func (u Untrusted) QuoteMax(limit int) string {
	var b strings.Builder
	b.WriteByte('"')
	rest, shown := string(u), 0
	for rest != "" && shown < limit {
		r, size := utf8.DecodeRuneInString(rest)
		writeVisible(&b, r, rest[:size])
		rest, shown = rest[size:], shown+1
	}
	b.WriteByte('"')
	if rest != "" {
		fmt.Fprintf(&b, " (+%d more)", utf8.RuneCountInString(rest))
	}
	return b.String()
}

func writeVisible(b *strings.Builder, r rune, raw string) {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		fmt.Fprintf(b, `\x%02x`, raw[0])
	case r == '"' || r == '\\':
		b.WriteByte('\\')
		b.WriteRune(r)
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\t':
		b.WriteString(`\t`)
	case r == ' ':
		b.WriteByte(' ')
	case !unicode.IsGraphic(r) || unicode.IsSpace(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Zs, unicode.Mn, unicode.Me) || r == '\u115f' || r == '\u1160' || r == '\u3164' || r == '\uffa0' || r == '\u2800':
		if r > 0xffff {
			fmt.Fprintf(b, `\U%08x`, r)
		} else {
			fmt.Fprintf(b, `\u%04x`, r)
		}
	default:
		b.WriteRune(r)
	}
}
