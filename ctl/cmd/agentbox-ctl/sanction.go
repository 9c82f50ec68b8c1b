package main

import (
	"context"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/daemon"
	"github.com/madarco/agentbox/ctl/initd"
	"github.com/madarco/agentbox/ctl/landing"
)

// wordTime bounds the wait for process 1.
const wordTime = 10 * time.Second

// runSanction makes the daemon land another branch. It gives no right: what
// the host was not told to take, it refuses.
func runSanction(ctx context.Context, args []string, s streams) int {
	flags := newFlags("sanction")
	key := flags.String("repo", "", "the repository's key")
	stateDir := flags.String("state-dir", daemon.DefaultStateDir, "what a restart must not lose")
	word := flags.String("word", initd.WordPath, "the FIFO of process 1")
	if code, ok := parse(flags, args, s); !ok {
		return code
	}
	branch, err := core.ParseBranchName(flags.Arg(0))
	if err == nil {
		err = landing.Sanction(*stateDir, *key, branch)
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, wordTime)
		defer cancel()
		err = initd.Tell(ctx, *word)
	}
	if err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	return wire.ExitOK
}
