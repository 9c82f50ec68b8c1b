package main

import (
	"context"
	"path/filepath"
)

// shims are the programs that this one stands in for in a box, by the name that
// it was called by: links to it that lie before the real ones in PATH, if there
// are any.
var shims = map[string]func(ctx context.Context, args []string, s streams) int{}

// runAs runs the program as what argv says, a shim or agentbox-ctl itself.
func runAs(ctx context.Context, argv []string, s streams) int {
	if shim, ok := shims[filepath.Base(argv[0])]; ok {
		return shim(ctx, argv[1:], s)
	}
	return run(ctx, argv[1:], s)
}
