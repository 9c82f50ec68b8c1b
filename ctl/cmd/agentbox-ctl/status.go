package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/control"
	"github.com/madarco/agentbox/ctl/daemon"
	"github.com/madarco/agentbox/ctl/landing"
)

func runStatus(ctx context.Context, args []string, s streams) int {
	flags := newFlags("status")
	socket := flags.String("socket", control.DefaultSocket, "the daemon's control socket")
	var asJSON bool
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	flags.BoolVar(&asJSON, "j", false, "print JSON")
	if code, ok := parse(flags, args, s); !ok {
		return code
	}
	var status daemon.Status
	if err := control.Call(ctx, *socket, control.Request{Op: control.Status}, &status); err != nil {
		return fail(s, wire.ExitFailed, hint(err))
	}
	if asJSON {
		return printJSON(s, status)
	}
	printStatus(s.out, status)
	return wire.ExitOK
}

// hint adds what to do about a daemon that does not run.
func hint(err error) error {
	if errors.Is(err, control.ErrNotRunning) {
		return fmt.Errorf("%w; it starts when the host has finished the box's setup, `agentbox start` on the host does that again", err)
	}
	return err
}

func printJSON(s streams, v any) int {
	enc := json.NewEncoder(s.out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	return wire.ExitOK
}

func printStatus(w io.Writer, status daemon.Status) {
	fmt.Fprintf(w, "DAEMON\n%s, process %d, since %s\n\nRELAY\n", status.Version, status.PID, status.StartedAt.Format(time.RFC3339))
	switch r := status.Relay; {
	case r.Problem != "":
		fmt.Fprintln(w, r.Problem)
	case r.Listen == "":
		fmt.Fprintln(w, "(this box has no relay)")
	default:
		fmt.Fprintf(w, "%s -> %s\n", r.Listen, r.Upstream)
	}
	fmt.Fprintln(w, "\nLANDING")
	printLanding(w, status.Landing)
}

func printLanding(w io.Writer, states []landing.State) {
	if len(states) == 0 {
		fmt.Fprintln(w, "(no repositories)")
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "REPOSITORY\tBRANCH\tSTATE\tTIP\tPROBLEM")
	for _, st := range states {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", st.Path, st.Branch, st.Phase, cmp.Or(st.Tip.Short(), "-"), cmp.Or(st.Problem, "-"))
	}
	_ = table.Flush() // as the Fprints before it
}

func runLand(ctx context.Context, args []string, s streams) int {
	flags := newFlags("land")
	socket := flags.String("socket", control.DefaultSocket, "the daemon's control socket")
	stateDir := flags.String("state-dir", daemon.DefaultStateDir, "where the list of repositories lies")
	toStdout := flags.Bool("stdout", false, "write the commits to standard output, for a host that pulls them")
	branch := flags.String("branch", "", "with --stdout: this branch of the workspace alone")
	asJSON := flags.Bool("json", false, "print JSON")
	if code, ok := parse(flags, args, s); !ok {
		return code
	}
	if *toStdout {
		repos, err := landing.ReadList(*stateDir)
		if err == nil && *branch != "" {
			repos, err = landing.Only(repos, core.WorkspacePath, *branch)
		}
		if err == nil {
			err = landing.WriteHandin(ctx, s.out, repos)
		}
		if err != nil {
			return fail(s, wire.ExitFailed, err)
		}
		return wire.ExitOK
	}
	var states []landing.State
	if err := control.Call(ctx, *socket, control.Request{Op: control.Land}, &states); err != nil {
		return fail(s, wire.ExitFailed, hint(err))
	}
	if *asJSON {
		printJSON(s, states)
	} else {
		printLanding(s.out, states)
	}
	if slices.ContainsFunc(states, func(st landing.State) bool { return st.Phase != landing.Landed && st.Phase != landing.Unborn }) {
		return wire.ExitFailed
	}
	return wire.ExitOK
}
