package integrations

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The lexical grammar is that of the GraphQL specification, edition of September
// 2025, section 2.1 and appendix B (https://spec.graphql.org/September2025/);
// the definitions that are allowed are its OperationDefinition without mutation
// and subscription, and its FragmentDefinition.

type kind byte

const (
	endOfText kind = iota
	punctuator
	name
	number
	text
)

type token struct {
	kind kind
	// value is the token's own characters; of a text it is empty.
	value string
}

var errGraphQL = errors.New("it is no GraphQL document that only reads")

// onlyReads refuses a document unless all its definitions are queries and
// fragments. What it can't classify it refuses, so it may refuse what a server
// would take, and never the other way round.
func onlyReads(document string) error {
	l := &lexer{rest: document}
	definitions := 0
	for l.next(); l.tok.kind != endOfText; definitions++ {
		if !l.definition() {
			return errGraphQL
		}
	}
	if l.bad || definitions == 0 {
		return errGraphQL
	}
	return nil
}

// lexer holds the token that is looked at. Once it is bad it stays at the end
// of the text.
type lexer struct {
	rest string
	tok  token
	bad  bool
}

// definition goes over one definition that only reads.
func (l *lexer) definition() bool {
	switch {
	case l.is("{"):
		return l.group()
	case l.word("query"):
		l.next()
		if l.tok.kind == name {
			l.next()
		}
		if l.is("(") && !l.group() {
			return false
		}
	case l.word("fragment"):
		l.next()
		if l.tok.kind != name || l.tok.value == "on" {
			return false
		}
		if l.next(); !l.word("on") {
			return false
		}
		if l.next(); l.tok.kind != name {
			return false
		}
		l.next()
	default:
		return false
	}
	return l.directives() && l.is("{") && l.group()
}

func (l *lexer) directives() bool {
	for l.is("@") {
		if l.next(); l.tok.kind != name {
			return false
		}
		if l.next(); l.is("(") && !l.group() {
			return false
		}
	}
	return true
}

var closes = map[string]string{"{": "}", "(": ")", "[": "]"}

// group goes over brackets and all that is in them.
func (l *lexer) group() bool {
	var open []string
	for {
		if l.tok.kind == endOfText {
			return false
		}
		if l.tok.kind == punctuator {
			if end := closes[l.tok.value]; end != "" {
				open = append(open, end)
			} else if strings.Contains("})]", l.tok.value) {
				if l.tok.value != open[len(open)-1] {
					return false
				}
				open = open[:len(open)-1]
			}
		}
		l.next()
		if len(open) == 0 {
			return !l.bad
		}
	}
}

func (l *lexer) is(p string) bool      { return l.tok.kind == punctuator && l.tok.value == p }
func (l *lexer) word(word string) bool { return l.tok.kind == name && l.tok.value == word }

// next looks at the next token.
func (l *lexer) next() {
	l.skip()
	if l.bad || l.rest == "" {
		l.tok = token{}
		return
	}
	k, size := scan(l.rest)
	if size == 0 {
		l.fail()
		return
	}
	l.tok = token{kind: k}
	if k != text {
		l.tok.value = l.rest[:size]
	}
	l.rest = l.rest[size:]
}

func (l *lexer) fail() { l.bad, l.rest, l.tok = true, "", token{} }

// skip goes over what means nothing: white space, commas, comments, a byte
// order mark. Space that is none in GraphQL is skipped too, as a server can
// only refuse it, but ends no comment: whether it does differs between readers.
func (l *lexer) skip() {
	for {
		r, size := utf8.DecodeRuneInString(l.rest)
		switch {
		case size == 0:
			return
		case r == '#':
			size = strings.IndexAny(l.rest, "\n\r")
			if size < 0 {
				size = len(l.rest)
			}
			if comment := l.rest[:size]; strings.ContainsAny(comment, "\v\f\u0085\u2028\u2029\x00") || !utf8.ValidString(comment) {
				l.fail()
				return
			}
		case r == ',' || r == '\ufeff' || unicode.IsSpace(r):
		default:
			return
		}
		l.rest = l.rest[size:]
	}
}

// scan finds the token that s begins with; size 0 means that there is none.
func scan(s string) (kind, int) {
	switch c := s[0]; {
	case strings.IndexByte("!$&():=@[]{|}", c) >= 0:
		return punctuator, 1
	case strings.HasPrefix(s, "..."):
		return punctuator, 3
	case isNameStart(c):
		return name, span(s, 0, isNameByte)
	case c == '-' || isDigit(c):
		return number, scanNumber(s)
	case strings.HasPrefix(s, `"""`):
		return text, scanBlock(s)
	case c == '"':
		return text, scanString(s)
	}
	return endOfText, 0
}

func isNameStart(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool     { return c >= '0' && c <= '9' }
func isNameByte(c byte) bool  { return isNameStart(c) || isDigit(c) }

// span is the end of the bytes from i on that are of a kind.
func span(s string, i int, is func(byte) bool) int {
	for i < len(s) && is(s[i]) {
		i++
	}
	return i
}

// scanNumber reads IntValue and FloatValue, which no name or dot may follow.
func scanNumber(s string) int {
	i := 0
	if s[0] == '-' {
		i = 1
	}
	digits := func() bool {
		end := span(s, i, isDigit)
		some := end > i
		i = end
		return some
	}
	first := i
	if !digits() || s[first] == '0' && i > first+1 {
		return 0
	}
	if i < len(s) && s[i] == '.' {
		if i++; !digits() {
			return 0
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		if i++; i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if !digits() {
			return 0
		}
	}
	if i < len(s) && (isNameStart(s[i]) || s[i] == '.') {
		return 0
	}
	return i
}

// scanString reads a StringValue on one line.
func scanString(s string) int {
	for i := 1; i < len(s); {
		switch r, size := utf8.DecodeRuneInString(s[i:]); {
		case r == '"':
			return i + 1
		case r == '\\':
			n := scanEscape(s[i:])
			if n == 0 {
				return 0
			}
			i += n
		case r == '\n' || r == '\r' || r < ' ' && r != '\t' || r == utf8.RuneError && size == 1:
			return 0
		default:
			i += size
		}
	}
	return 0
}

// scanEscape reads what a backslash begins: one character, \uXXXX or \u{X…}.
func scanEscape(s string) int {
	if len(s) < 2 {
		return 0
	}
	if strings.IndexByte(`"\/bfnrt`, s[1]) >= 0 {
		return 2
	}
	if s[1] != 'u' {
		return 0
	}
	if strings.HasPrefix(s[2:], "{") {
		if end := span(s, 3, isHex); end > 3 && end < len(s) && s[end] == '}' {
			return end + 1
		}
		return 0
	}
	if end := span(s[:min(len(s), 6)], 2, isHex); end == 6 {
		return end
	}
	return 0
}

func isHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// scanBlock reads a block string, in which only \""" is an escape.
func scanBlock(s string) int {
	for i := 3; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], `"""`):
			return i + 3
		case strings.HasPrefix(s[i:], `\"""`):
			i += 4
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 || r < ' ' && r != '\t' && r != '\n' && r != '\r' {
				return 0
			}
			i += size
		}
	}
	return 0
}
