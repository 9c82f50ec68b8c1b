package server

import (
	"fmt"

	"github.com/madarco/agentbox/core"
)

// flags is what the args of a git RPC can mean. They are never passed on.
type flags struct {
	// lease lets a branch other than the box's own be rewritten; like every
	// push it is leased on the value that was seen.
	lease  bool
	dryRun bool
}

// flagTable lists the args that a method takes. A nil entry is taken and has
// no effect: the host's answer to the box is the same with it.
type flagTable map[string]func(*flags)

var verbosity = flagTable{"--quiet": nil, "-q": nil, "--verbose": nil, "-v": nil, "--progress": nil, "--no-progress": nil}

var (
	pushFlags = verbosity.and(flagTable{
		"--force-with-lease": func(f *flags) { f.lease = true },
		"--dry-run":          func(f *flags) { f.dryRun = true },
	})
	fetchFlags = verbosity.and(flagTable{
		"--prune": nil, "-p": nil, "--prune-tags": nil, "--tags": nil, "--no-tags": nil, "--force": nil, "-f": nil, "--dry-run": nil,
	})
	pullFlags = verbosity.and(flagTable{"--ff-only": nil, "--prune": nil, "-p": nil, "--tags": nil, "--no-tags": nil})
)

func (t flagTable) and(more flagTable) flagTable {
	all := flagTable{}
	for _, part := range []flagTable{t, more} {
		for name, effect := range part {
			all[name] = effect
		}
	}
	return all
}

// decode reads args by the table; anything else is refused.
func (t flagTable) decode(args []string) (flags, error) {
	var f flags
	for _, arg := range args {
		effect, ok := t[arg]
		if !ok {
			return f, fmt.Errorf("argument %s is not taken; use git in the box for everything beyond the plain form", core.Untrusted(arg).Quote())
		}
		if effect != nil {
			effect(&f)
		}
	}
	return f, nil
}
