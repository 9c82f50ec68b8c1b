// Package outtext judges text of a box that is to be said in the user's name: a
// title, a comment, a page.
//
// Invariants:
//   - What can make others act (a command line, a mention), or give away what
//     was put into the box, is never harmless.
//   - It errs towards not harmless: the answer leads to a question.
package outtext

import (
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/madarco/agentbox/core"
)

// Why a text may not go out unasked.
const (
	Command = "a line begins with a slash"
	Mention = "it mentions somebody"
	Secret  = "it holds what looks like a secret"
	Known   = "it holds a value that was put into the box"
)

// minValue is the shortest value that is looked for, in bytes: shorter ones
// stand in any text by chance.
const minValue = 8

// mention is an @ with a name after it that no word or address is before, so
// that "a@b.example" is none.
var mention = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(^|[^\pL\pN._+-])[@\x{ff20}][\pL\pN_\[]|[([<]mention|user://`)
})

// Trouble says why a text may not go out unasked, in a phrase of ours; empty
// means that it may. values are what was put into the box: they are found as
// they are, in base64 in any alignment, and in hex.
func Trouble(text string, values ...string) string {
	plain := strings.Map(visible, text)
	for _, line := range strings.FieldsFunc(plain, isBreak) {
		if strings.HasPrefix(strings.TrimSpace(line), "/") {
			return Command
		}
	}
	switch {
	case mention().MatchString(plain):
		return Mention
	case core.HoldsSecret([]byte(text)) || core.HoldsSecret([]byte(plain)):
		return Secret
	}
	for _, value := range values {
		if holds(plain, value) || holds(text, value) {
			return Known
		}
	}
	return ""
}

// visible drops what nobody sees, which would hide a word from the rules.
func visible(r rune) rune {
	if unicode.In(r, unicode.Cf) {
		return -1
	}
	return r
}

func isBreak(r rune) bool {
	return r == '\n' || r == '\r' || r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029'
}

func holds(text, value string) bool {
	if len(value) < minValue {
		return false
	}
	if strings.Contains(text, value) || strings.Contains(strings.ToLower(text), hex.EncodeToString([]byte(value))) {
		return true
	}
	one := strings.Join(strings.Fields(text), "") // an encoded text may be wrapped
	one = strings.NewReplacer("-", "+", "_", "/").Replace(one)
	for skip := range 3 {
		// The value may begin at any of the three places of a group: the characters
		// that depend on its neighbours are left out.
		whole := base64.RawStdEncoding.EncodeToString(append(make([]byte, skip), value...))
		from := []int{0, 2, 3}[skip]
		to := len(whole) - []int{0, 1, 1}[(len(value)+skip)%3]
		if strings.Contains(one, whole[from:to]) {
			return true
		}
	}
	return false
}
