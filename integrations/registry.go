package integrations

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// registry is every service, by name.
var registry = []Service{linear, notion}

// All lists the services, by name.
func All() []Service { return slices.Clone(registry) }

// Find finds a service by its exact name.
func Find(name string) (Service, bool) {
	i := slices.IndexFunc(registry, func(s Service) bool { return s.Name == name })
	if i < 0 {
		return Service{}, false
	}
	return registry[i], true
}

// MethodPrefix begins the name of every RPC of an integration.
const MethodPrefix = "integration."

var methodPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^integration\.([a-z][a-z0-9]*)\.([a-z][a-z0-9.]*)$`)
})

// ParseMethod takes the name of an RPC apart; ok is false where it has not the
// form integration.<service>.<op>.
func ParseMethod(method string) (service, op string, ok bool) {
	m := methodPattern().FindStringSubmatch(method)
	if m == nil || strings.HasSuffix(method, ".") || strings.Contains(method, "..") {
		return "", "", false
	}
	return m[1], m[2], true
}

// Service is a service and the program of the host that speaks to it.
type Service struct {
	// Name is the service's in methods and settings, Program the host's.
	Name, Program string
	// Shims are the names by which the program is called in a box.
	Shims []string
	// Detect finds out whether the program is there and logged in.
	Detect Detect
	// Env is set for the program; see Environ.
	Env map[string]string
	// Scope is what the user may set so that writes to it need no question.
	Scope Scope
	Ops   []Op
}

// Detect is how a program is examined.
type Detect struct {
	// Version and Auth are arguments; each ends with 0 where all is well.
	Version, Auth []string
	// Install and Login say what to do where it does not.
	Install, Login string
}

// Scope is a destination that the user can name in the configuration.
type Scope struct {
	// Key is its name in the configuration, What what it is.
	Key, What string
	// Valid tells whether a value has the form of one.
	Valid func(string) bool
	// Holds tells whether a destination, as an argument names it, lies in it.
	Holds func(scope, destination string) bool
}

// Op finds an operation by its exact name.
func (s Service) Op(name string) (Op, bool) {
	i := slices.IndexFunc(s.Ops, func(o Op) bool { return o.Name == name })
	if i < 0 {
		return Op{}, false
	}
	return s.Ops[i], true
}

// OpNames lists the operations.
func (s Service) OpNames() []string {
	var names []string
	for _, op := range s.Ops {
		names = append(names, op.Name)
	}
	return names
}

// EnvPrefix begins every variable of the environment that is the program's own.
func (s Service) EnvPrefix() string { return strings.ToUpper(s.Name) + "_" }

// Environ is Env as "NAME=value". The error says which variable is not the
// service's own: a descriptor must not be able to change how programs are found.
func (s Service) Environ() ([]string, error) {
	var env []string
	for name, value := range s.Env {
		if rest, own := strings.CutPrefix(name, s.EnvPrefix()); !own || rest == "" || strings.ContainsAny(name, "=\x00") {
			return nil, fmt.Errorf("set %s for %s: only %s* may be set", name, s.Program, s.EnvPrefix())
		}
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env, nil
}

// Op is one operation of a service.
type Op struct {
	// Name is the operation's in methods, Summary a line for people.
	Name, Summary string
	// Write: it changes something in the service.
	Write bool
	// Argv are the program's first arguments.
	Argv []string
	// Verbs are other words that the program in the box takes for it, beside
	// Argv; see Service.Verb.
	Verbs [][]string
	// Fixed are options of ours, which no argument of a box repeats.
	Fixed []string
	// Flags and Words are all that may be given.
	Flags []Flag
	Words []Word
	// Or is a second reading of the same name, for arguments that the first
	// refuses.
	Or *Op
	// Default adds what the host names where the box did not: it is called with
	// the user's scope if one is set.
	Default func(c *Call, scope string)
}

// Verb finds the operation that the program's own words mean, such as "issue
// comment add", and what follows them.
func (s Service) Verb(args []string) (op Op, rest []string, ok bool) {
	longest := 0
	for _, o := range s.Ops {
		for _, words := range append([][]string{o.Argv}, o.Verbs...) {
			if n := len(words); n > longest && len(args) >= n && slices.Equal(args[:n], words) {
				op, longest = o, n
			}
		}
	}
	return op, args[longest:], longest > 0
}
