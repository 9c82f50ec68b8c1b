package forge

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/madarco/agentbox/core"
)

var (
	numberForm = regexp.MustCompile(`^[0-9]{1,15}$`)
	wordForm   = regexp.MustCompile(`^[a-z_]{1,40}$`)
	fieldsForm = regexp.MustCompile(`^[A-Za-z]+(,[A-Za-z]+)*$`)
	acceptForm = regexp.MustCompile(`^(?i:accept): ?[A-Za-z0-9.+*/;=, -]+$`)
	// elsewhere are the qualifiers that widen a search beyond the repository
	// (docs.github.com, "Understanding the search syntax").
	elsewhere = regexp.MustCompile(`(?i)\b(repo|org|user|owner|enterprise)\s*:`)
	// hostWords of jq read the environment or files of the program that runs it,
	// or let a short text make endless work.
	hostWords = regexp.MustCompile(`(?i)\b(env|import|include|input|inputs|def|range|repeat|recurse|while|until|limit|infinite|combinations|setpath)\b|\.\.`)
)

func form(re *regexp.Regexp, what string) func(string) error {
	return func(s string) error {
		if !re.MatchString(s) {
			return fmt.Errorf("%s is not %s", core.Untrusted(s).Quote(), what)
		}
		return nil
	}
}

var (
	number = form(numberForm, "a number")
	word   = form(wordForm, "a lower-case word")
	fields = form(fieldsForm, "a list of fields")
	accept = form(acceptForm, "an Accept header, and no other is taken")
)

func oneOf(words ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("%s is not one of: %s", core.Untrusted(s).Quote(), strings.Join(words, ", "))
		}
		return nil
	}
}

func branch(s string) error {
	_, err := core.ParseBranchName(s)
	return err
}

// text is anything that a file or an argument can hold.
func text(s string) error {
	if strings.ContainsRune(s, 0) {
		return errors.New("it holds a zero byte")
	}
	return nil
}

// line is text for one line.
func line(s string) error {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%s is not one line of text", core.Untrusted(s).Quote())
	}
	return nil
}

// search is what a search is narrowed by.
func search(s string) error {
	if elsewhere.MatchString(s) {
		return fmt.Errorf("%s looks beyond the repository", core.Untrusted(s).Quote())
	}
	return line(s)
}

func jq(s string) error {
	if m := hostWords.FindString(s); m != "" {
		return fmt.Errorf("the expression uses %s, which the host does not run for a box; pipe the JSON into jq in the box", core.Untrusted(m).Quote())
	}
	return text(s)
}

// field is "key=value" of the API; which keys there are depends on the method.
func field(s string) error {
	_, value, ok := strings.Cut(s, "=")
	if !ok {
		return fmt.Errorf("%s has not the form key=value", core.Untrusted(s).Quote())
	}
	return text(value)
}
