// Command agentbox makes boxes for coding agents and looks after them. It is
// also the relay, as `agentbox relay serve`.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/madarco/agentbox/cli/internal/interrupt"
	"github.com/madarco/agentbox/cli/internal/root"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/cli/internal/system"
	ours "github.com/madarco/agentbox/cli/internal/version"
)

// version is what the build sets.
var version string

func main() {
	os.Exit(run(os.Args))
}

func run(args []string) int {
	v := ours.Or(version)
	if len(args) == 2 && (args[1] == "--version" || args[1] == "-V") { // before anything is built
		fmt.Println(v)
		return 0
	}
	s := streams.System()
	ctx, interrupts, stop := interrupt.Watch(context.Background(), s.ErrOut)
	defer stop()
	sys := system.New(s, v, interrupts)
	return root.Run(ctx, sys.Factory, sys, args)
}
