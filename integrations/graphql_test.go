package integrations

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDocumentsThatOnlyRead(t *testing.T) {
	for _, doc := range []string{
		"{a}", "query{a}", "query Q {a}", "query Q($a: Int = 1, $o: In = {x: {y: [1, -2.5e3]}}) @live(if: {a: 1}) @b {a(x: $a) @skip(if: true) {b}}",
		"query A{a} query B{b}", "{a} {b}", "fragment F on T {a} query {...F}", "query {...F} fragment F on T @d {a}", "query {... on T {a} ...F}",
		"  \t\r\n,{a}", "\ufeff{a}", "\u00a0{a}", "# mutation {a}\n{a}", "#\r{a}", "#c\r\nquery{a}", "{a}#end",
		`{a(s: "mutation {x}")}`, `{a(s: """mutation { "x" \""" } """)}`, `{a(s: "}\" mutation {x}")}`, `{a(s: "\u00e9\u{1F600}")}`,
		"{mutation subscription}", "query mutation {a}", "{a: mutation(x: mutation)}", "{a # } mutation {x}\n}", `{a(s: "")}`, `{a(s: """""")}`,
		"{a(x: 0, y: -0, z: 1.5e+3)}", "query Q{a(x:1)}",
	} {
		if err := onlyReads(doc); err != nil {
			t.Errorf("%q is refused", doc)
		}
	}
}

func TestDocumentsThatMayWrite(t *testing.T) {
	prefixes := []string{
		"", "\ufeff", " ", ",", ",,\u00a0", "\u2028", "\u2029", "\u0085", "\v", "\f", "# c\n", "#c\r", "#c\r\n", "#\n#\n", "\r\n\t ", "query{a} ", "query A{a}query B{b}", "{a}",
		"fragment F on T {a} ", "fragment F on T {a}#c\n", `{a(s: "\"")}`, `{a(s: """ \""" """)}`, `{a(s: "{")}`, `{a(s: "\\")}`, "{a # }\n}", "query($x: T = {a: 1}) {a}",
	}
	for _, prefix := range prefixes {
		for _, write := range []string{"mutation{a}", "mutation M {a}", "MUTATION{a}", "Mutation {a}", "subscription{a}", "SUBSCRIPTION S{a}"} {
			if onlyReads(prefix+write) == nil {
				t.Errorf("%q passes", prefix+write)
			}
		}
	}
	for _, doc := range []string{
		"", " ", "#", "a", ":x", `"x"`, `"x" {a}`, `"""x""" query {a}`, "/* */ {x}", "-mutation {x}", "{", "}", "{a", "a}", "{a}}", "{a(}", "{(})", "query", "query {", "query A", "query A B {a}",
		"query A mutation {a}", "query A mutation B {a}", "query @ {a}", "query @d mutation {a}", "query ($a: T mutation {a}", "query[]{a}",
		"fragment on on T {a}", "fragment F T {a}", "fragment F on {a}", "fragment F on T mutation {a}", "fragment F($a: T) on T {a}", "fragment F on T {a} mutation M {...F}",
		"schema {query: Q}", "type T {a: B}", "extend type T {a: B}", "{a}\x00mutation{a}", "\x00{a}", "{a(s: \"\x00\")}", "{a(s: \"\n\")} mutation{a}", `{a(s: "} mutation {a}`, `{a(s: """} mutation {a}`,
		`{a(s: "\x")}`, `{a(s: "\u12")}`, `{a(s: "\u{}")}`, `{a(s: "\u{12")}`, `{a(s: "\`, "{a(x: 01)}", "{a(x: 1a)}", "{a(x: 1.)}", "{a(x: 1..2)}", "{a(x: -)}", "{a(x: 1e)}", "{a ; b}", "{a ? b}", "{a . b}", "{a .. b}",
		"#\u2028mutation {x}\n{a}", "#\u0085\n{a}", "#\xff\n{a}", "\xff{a}", "{a}\xff", "{\u00e9}", "m\u00fctation{a}", "%7Ba%7D", "'{a}'", "`{a}`",
		"\\u006dutation{a}", "query{a}\\u006dutation{b}",
	} {
		if onlyReads(doc) == nil {
			t.Errorf("%q passes", doc)
		}
	}
}

// FuzzOnlyReads holds the reader of documents to a second one: whatever passes,
// the words that stand outside of all brackets, strings and comments open no
// mutation.
func FuzzOnlyReads(f *testing.F) {
	for _, doc := range []string{"{a}", "query Q($a: T = {b: 1}) {a} mutation {b}", "fragment F on T {a}\n#x\nmutation{b}", `{a(s: """ \""" """)} mutation {a}`, "\ufeff,{a}"} {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		if onlyReads(doc) != nil {
			return
		}
		if !utf8.ValidString(doc) {
			t.Fatalf("%q is no text", doc)
		}
		if onlyReads(doc+"\nmutation {a}") == nil {
			t.Errorf("a mutation after %q passes", doc)
		}
		if onlyReads("mutation {a}\n"+doc) == nil {
			t.Errorf("a mutation before %q passes", doc)
		}
		for _, word := range outermost(doc) {
			if word == "mutation" || word == "subscription" {
				t.Errorf("%q holds %s", doc, word)
			}
		}
	})
}

// outermost lists the words that begin a definition, read without onlyReads:
// what it knows are strings, comments and brackets.
func outermost(doc string) []string {
	var words []string
	depth, begins := 0, true
	for i := 0; i < len(doc); {
		rest := doc[i:]
		switch c := doc[i]; {
		case c == '#':
			end := strings.IndexAny(rest, "\r\n")
			if end < 0 {
				return words
			}
			i += end
		case strings.HasPrefix(rest, `"""`):
			i += 3
			for !strings.HasPrefix(doc[i:], `"""`) {
				if strings.HasPrefix(doc[i:], `\"""`) {
					i += 3
				}
				i++
			}
			i += 3
		case c == '"':
			for i++; doc[i] != '"'; i++ {
				if doc[i] == '\\' {
					i++
				}
			}
			i++
		case strings.IndexByte("{([", c) >= 0:
			depth++
			i++
		case strings.IndexByte("})]", c) >= 0:
			depth--
			begins = begins || depth == 0 && c == '}'
			i++
		case isNameStart(c):
			end := span(doc, i, isNameByte)
			if depth == 0 && begins {
				words, begins = append(words, doc[i:end]), false
			}
			i = end
		default:
			i++
		}
	}
	return words
}
