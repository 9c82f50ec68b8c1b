// Package integration reads what a tool in the box wants of a service: in the
// words of agentbox-ctl, or in those of the program that it stands in for.
//
// Invariants:
//   - It decides nothing: the relay judges every request anew.
//   - Words that mean no operation go nowhere.
package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/integrations"
)

// ErrUsage: the words are no request.
var ErrUsage = errors.New("usage: agentbox-ctl integration <service> <operation> [-- arguments]")

// Request is an operation and its arguments.
type Request struct {
	Method string
	Args   []string
}

// Parse reads `agentbox-ctl integration`. The first "--" is ours and not passed
// on. The error wraps ErrUsage.
func Parse(args []string) (Request, error) {
	if len(args) < 2 {
		return Request{}, fmt.Errorf("%w\n%s", ErrUsage, list())
	}
	s, op, rest := args[0], args[1], args[2:]
	method := integrations.MethodPrefix + s + "." + op
	if name, _, ok := integrations.ParseMethod(method); !ok || name != s {
		return Request{}, fmt.Errorf("%w: %s %s is none\n%s", ErrUsage, core.Untrusted(s).Quote(), core.Untrusted(op).Quote(), list())
	}
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	return Request{method, slices.Clone(rest)}, nil
}

func list() string {
	var b strings.Builder
	for _, s := range integrations.All() {
		for _, op := range s.Ops {
			fmt.Fprintf(&b, "  %s %-13s %s\n", s.Name, op.Name, op.Summary)
		}
	}
	return b.String()
}

// Shims are the names of all programs that a box has in place of the host's.
func Shims() map[string]integrations.Service {
	all := map[string]integrations.Service{}
	for _, s := range integrations.All() {
		for _, name := range s.Shims {
			all[name] = s
		}
	}
	return all
}

// Shim reads the words of a service's own program. The error says which words
// there are, or wraps integrations.ErrRefused.
func Shim(s integrations.Service, args []string) (Request, error) {
	op, rest, ok := s.Verb(args)
	if !ok {
		return Request{}, fmt.Errorf("%s in a box takes: %s", s.Program, strings.Join(verbs(s), ", "))
	}
	if _, err := op.Parse(rest); err != nil {
		return Request{}, fmt.Errorf("%s %s: %w", s.Program, strings.Join(op.Argv, " "), err)
	}
	return Request{integrations.MethodPrefix + s.Name + "." + op.Name, slices.Clone(rest)}, nil
}

func verbs(s integrations.Service) []string {
	var all []string
	for _, op := range s.Ops {
		for _, words := range append([][]string{op.Argv}, op.Verbs...) {
			if text := strings.Join(words, " "); !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}
