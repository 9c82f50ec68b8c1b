package main

import (
	"context"
	"errors"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/lfs"
)

// runLFS is the filter that the configuration of a repository names; see
// package workspace.
func runLFS(_ context.Context, args []string, s streams) int {
	err := errors.New("usage: agentbox-ctl lfs clean|smudge STORE")
	if len(args) == 2 {
		switch args[0] {
		case "clean":
			err = lfs.Clean(args[1], s.in, s.out)
		case "smudge":
			err = lfs.Smudge(args[1], s.in, s.out)
		}
	}
	if err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	return wire.ExitOK
}
