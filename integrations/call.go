package integrations

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/madarco/agentbox/core"
)

// ErrRefused is wrapped by every refusal of an argument.
var ErrRefused = errors.New("refused")

// Bounds on what a box may give one call.
const (
	MaxArgs      = 200
	MaxArgsBytes = 96 << 10
)

// Flag is one option.
type Flag struct {
	// Name begins with "--"; Short is "-x" or empty.
	Name, Short string
	// Switch takes no value, Many may stand more than once.
	Switch, Many bool
	// Value refuses what it is not; nil takes any text.
	Value func(string) error
	// Text: it is said in the user's name. Place: it names where is written.
	Text, Place bool
	// Drop: it is understood and not passed on, as Fixed says it.
	Drop bool
}

// Word is one argument that is no option.
type Word struct {
	Name string
	// Needed: the call is nothing without it. Rest: it takes all that follow.
	Needed, Rest bool
	// Value as in Flag; Make turns it into the argument of the program.
	Value func(string) error
	Make  func(string) string
	// Text and Place as in Flag.
	Text, Place bool
}

// Call is an operation with its arguments, understood.
type Call struct {
	Op Op
	// options and words are in the order in which they came.
	options []option
	words   []argument
}

type option struct {
	flag  Flag
	value string
}

type argument struct {
	word  Word
	value string
}

// Option is the value of an option; ok is false where it was not given.
func (c *Call) Option(name string) (value string, ok bool) {
	for _, o := range c.options {
		if o.flag.Name == name {
			return o.value, true
		}
	}
	return "", false
}

// set adds an option that the host chose.
func (c *Call) set(name, value string) {
	for _, f := range c.Op.Flags {
		if f.Name == name {
			c.options = append(c.options, option{f, value})
		}
	}
}

// Argv is what the program is called with. An option and its value are one
// argument, so that no value is read as an option.
func (c *Call) Argv() []string {
	argv := append([]string{}, c.Op.Argv...)
	for _, w := range c.words {
		value := w.value
		if w.word.Make != nil {
			value = w.word.Make(value)
		}
		argv = append(argv, value)
	}
	argv = append(argv, c.Op.Fixed...)
	for _, o := range c.options {
		switch {
		case o.flag.Drop:
		case o.flag.Switch:
			argv = append(argv, o.flag.Name)
		default:
			argv = append(argv, o.flag.Name+"="+o.value)
		}
	}
	return argv
}

// Texts are what would be said in the user's name, each with the name of its
// argument.
func (c *Call) Texts() (names, texts []string) {
	for _, w := range c.words {
		if w.word.Text {
			names, texts = append(names, w.word.Name), append(texts, w.value)
		}
	}
	for _, o := range c.options {
		if o.flag.Text {
			names, texts = append(names, strings.TrimLeft(o.flag.Name, "-")), append(texts, o.value)
		}
	}
	return names, texts
}

// Places are the destinations that the arguments name.
func (c *Call) Places() []string {
	var places []string
	for _, w := range c.words {
		if w.word.Place {
			places = append(places, w.value)
		}
	}
	for _, o := range c.options {
		if o.flag.Place {
			places = append(places, o.value)
		}
	}
	return places
}

// Within tells whether all destinations of the call, of which there must be
// one, lie in the user's scope.
func (s Service) Within(c *Call, scope string) bool {
	places := c.Places()
	for _, place := range places {
		if scope == "" || !s.Scope.Holds(scope, place) {
			return false
		}
	}
	return len(places) > 0
}

// files matches options that name a file of the host, in any program.
var files = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^--?([A-Za-z-]*[Ff]ile|attach|input)(=|$)`)
})

// Parse understands the arguments of a box. The error wraps ErrRefused.
func (o Op) Parse(args []string) (*Call, error) {
	if err := general(args); err != nil {
		return nil, err
	}
	c, err := o.read(args)
	if err != nil && o.Or != nil {
		if other, otherErr := o.Or.read(args); otherErr == nil {
			return other, nil
		}
	}
	return c, err
}

func (o Op) read(args []string) (*Call, error) {
	c := &Call{Op: o}
	for onlyWords := false; len(args) > 0; {
		arg := args[0]
		args = args[1:]
		var err error
		switch {
		case arg == "--" && !onlyWords:
			onlyWords = true
		case !onlyWords && strings.HasPrefix(arg, "-"):
			args, err = c.option(arg, args)
		default:
			err = c.word(arg)
		}
		if err != nil {
			return nil, err
		}
	}
	if n := len(c.words); n < len(o.Words) && o.Words[n].Needed {
		return nil, refuse("%s needs %s", o.Name, o.Words[n].Name)
	}
	return c, nil
}

// general refuses what no operation takes.
func general(args []string) error {
	size := 0
	for _, arg := range args {
		size += len(arg)
		switch {
		case files().MatchString(arg):
			name, _, _ := strings.Cut(arg, "=")
			return refuse("%s is about files of the host, which a box does not reach", core.Untrusted(name).Quote())
		case strings.HasPrefix(arg, "@"):
			return refuse("%s would be read from a file of the host", core.Untrusted(arg).Quote())
		case strings.ContainsRune(arg, 0):
			return refuse("an argument holds a NUL")
		}
	}
	if len(args) > MaxArgs || size > MaxArgsBytes {
		return refuse("more than %d arguments or %d bytes of them", MaxArgs, MaxArgsBytes)
	}
	return nil
}

// option takes an option in any spelling: --name value, --name=value, -x
// value, -x=value and -xvalue.
func (c *Call) option(arg string, rest []string) ([]string, error) {
	f, value, glued, ok := c.Op.flag(arg)
	shown := core.Untrusted(arg).QuoteMax(40)
	switch {
	case !ok:
		return nil, refuse("%s takes no option %s; it takes: %s", c.Op.Name, shown, c.Op.flagNames())
	case f.Switch && glued:
		return nil, refuse("%s takes no value", f.Name)
	case f.Switch:
	case !glued && len(rest) == 0:
		return nil, refuse("%s needs a value", f.Name)
	case !glued:
		value, rest = rest[0], rest[1:]
	}
	if _, twice := c.Option(f.Name); twice && !f.Many {
		return nil, refuse("%s stands twice", f.Name)
	}
	if err := check(f.Name, value, f.Value); err != nil {
		return nil, err
	}
	c.options = append(c.options, option{f, value})
	return rest, nil
}

func (o Op) flag(arg string) (f Flag, value string, glued, ok bool) {
	name, value, glued := strings.Cut(arg, "=")
	for _, f := range o.Flags {
		switch {
		case name == f.Name || f.Short != "" && name == f.Short:
			return f, value, glued, true
		case f.Short != "" && !f.Switch && strings.HasPrefix(arg, f.Short):
			return f, arg[len(f.Short):], true, true
		}
	}
	return Flag{}, "", false, false
}

func (o Op) flagNames() string {
	if len(o.Flags) == 0 {
		return "none"
	}
	var names []string
	for _, f := range o.Flags {
		names = append(names, f.Name)
	}
	return strings.Join(names, " ")
}

func (c *Call) word(value string) error {
	n := len(c.words)
	if last := len(c.Op.Words) - 1; last >= 0 && n > last && c.Op.Words[last].Rest {
		n = last
	}
	if n >= len(c.Op.Words) {
		return refuse("%s does not take %s", c.Op.Name, core.Untrusted(value).QuoteMax(40))
	}
	w := c.Op.Words[n]
	if strings.HasPrefix(value, "-") {
		return refuse("%s begins with a dash", w.Name)
	}
	if err := check(w.Name, value, w.Value); err != nil {
		return err
	}
	c.words = append(c.words, argument{w, value})
	return nil
}

// check refuses a value. One that begins with "@" would be read from a file by
// one of the programs.
func check(name, value string, valid func(string) error) error {
	if strings.HasPrefix(value, "@") {
		return refuse("the value of %s would be read from a file of the host", name)
	}
	if valid == nil {
		return nil
	}
	if err := valid(value); err != nil {
		return refuse("%s: %s", name, err)
	}
	return nil
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// matches makes the check of a value from an expression and what to say of it.
func matches(expr, what string) func(string) error {
	re := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
	return func(value string) error {
		if !re().MatchString(value) {
			return errors.New("it is " + what)
		}
		return nil
	}
}
