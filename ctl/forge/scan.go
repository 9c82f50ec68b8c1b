package forge

import (
	"slices"
	"strings"
)

// word is an option with its value, or with no name an argument, and as what
// it is passed on.
type word struct {
	name, value string
	raw         []string
}

// scan splits arguments as gh's own parser does (github.com/spf13/pflag). What
// it does not know it takes for a switch, which the relay then judges.
func scan(args, valued []string) []word {
	var all []word
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			for _, rest := range args {
				all = append(all, word{value: rest, raw: []string{"--", rest}})
			}
			return dashes(all)
		case strings.HasPrefix(arg, "--"):
			name, value, glued := strings.Cut(arg, "=")
			w := word{name, value, []string{arg}}
			if !glued && slices.Contains(valued, name) && len(args) > 0 {
				w.value, w.raw, args = args[0], []string{arg, args[0]}, args[1:]
			}
			all = append(all, w)
		case len(arg) > 1 && arg[0] == '-':
			var group []word
			group, args = short(arg[1:], args, valued)
			all = append(all, group...)
		default:
			all = append(all, word{value: arg, raw: []string{arg}})
		}
	}
	return all
}

// dashes leaves one "--", before the first argument that needs it. Options that
// the caller adds go before.
func dashes(all []word) []word {
	seen := false
	for i, w := range all {
		if len(w.raw) == 2 && w.raw[0] == "--" && w.name == "" {
			if seen {
				all[i].raw = w.raw[1:]
			}
			seen = true
		}
	}
	return all
}

// short splits a group of short options, of which the last may have a value.
func short(group string, args, valued []string) ([]word, []string) {
	var all []word
	for i := range len(group) {
		name, rest := "-"+group[i:i+1], group[i+1:]
		if !slices.Contains(valued, name) {
			if valued == nil {
				return []word{{name, rest, []string{"-" + group}}}, args
			}
			all = append(all, word{name, "", []string{name}})
			continue
		}
		w := word{name, strings.TrimPrefix(rest, "="), []string{name + rest}}
		if rest == "" && len(args) > 0 {
			w.value, w.raw, args = args[0], []string{name, args[0]}, args[1:]
		}
		return append(all, w), args
	}
	return all, args
}
