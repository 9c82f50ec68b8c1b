// Package session runs a command of the user in a box, on the user's terminal
// or on plain streams, and keeps the box's terminal sessions: commands that go
// on when nobody looks.
//
// Invariants:
//   - Exec starts in "/": the working folder is entered in the box, so that no
//     path that the box can write is resolved by the engine.
//   - Words of the user's command are never parsed a second time.
//   - The terminal is given back as it was found, on every way out.
//   - Secrets go to the box on a standard input, never in argv or environment
//     of an exec, which the engine shows.
//   - What a box says about its sessions is decoded strictly and chooses words
//     for the user alone.
package session

import (
	"context"
	"fmt"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

// Execer is the part of a provider that sessions need.
type Execer interface {
	Exec(ctx context.Context, box core.Box, req provider.ExecRequest) (int, error)
}

// Argv is what runs in the box for a command of the user: none is a login
// shell, one word a line for that shell, several are run as they are.
func Argv(command []string) []string {
	const enter = "cd " + string(core.WorkspacePath) + " || exit; "
	switch len(command) {
	case 0:
		return []string{"/bin/bash", "-c", enter + "exec /bin/bash -l"}
	case 1:
		return []string{"/bin/bash", "-lc", enter + `eval "$1"`, "agentbox", command[0]}
	default:
		return append([]string{"/bin/bash", "-c", enter + `exec -- "$@"`, "agentbox"}, command...)
	}
}

// Run runs command in the box, attached to the streams, and waits for its end.
// A code other than zero is returned as fail.Exit.
func Run(ctx context.Context, s *streams.Streams, in Execer, box core.Box, command []string) error {
	return stream(ctx, s, in, box, Argv(command))
}

// stream runs argv in the box, attached to the streams.
func stream(ctx context.Context, s *streams.Streams, in Execer, box core.Box, argv []string) error {
	code, err := onTerminal(ctx, s, in, box, provider.ExecRequest{Argv: argv, Stdin: s.In, Stdout: s.Out, Stderr: s.ErrOut})
	if err != nil {
		return fmt.Errorf("run in box %s: %w", box.Name, err)
	}
	return fail.Exited(code)
}
