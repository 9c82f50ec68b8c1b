package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	wiresession "github.com/madarco/agentbox/core/session"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/session"
)

const sessionUsage = `usage: agentbox-ctl session list [--json]
       agentbox-ctl session attach [--lease LEASE] NAME
       agentbox-ctl session hold LEASE   (ends that attach with standard input)
       agentbox-ctl session kill NAME
       agentbox-ctl session start        (a request in JSON on standard input)
       agentbox-ctl session stage        (the same, for run without a terminal)
       agentbox-ctl session run NAME     (what start and stage have left)
`

func runSession(ctx context.Context, args []string, s streams) int {
	if len(args) == 0 {
		fmt.Fprint(s.err, sessionUsage)
		return wire.ExitFailed
	}
	flags := newFlags("session " + args[0])
	flags.Usage = func() { fmt.Fprint(s.err, sessionUsage) }
	dir := flags.String("dir", session.DefaultDir, "where requests and exit codes lie")
	asJSON := flags.Bool("json", false, "print JSON")
	lease := flags.String("lease", "", "the name by which hold ends it")
	if code, ok := parse(flags, args[1:], s); !ok {
		return code
	}
	self, err := os.Executable()
	if err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	all := session.Sessions{Dir: *dir, Self: self, Home: os.Getenv("HOME")}
	code, err := 0, error(nil)
	switch args[0] {
	case "list":
		return listSessions(ctx, all, *asJSON, s)
	case "start", "stage":
		err = beginSession(ctx, all, args[0] == "start", s)
	case "attach", "hold", "kill", "run":
		code, err = namedSession(ctx, all, args[0], flags.Arg(0), *lease, s)
	default:
		fmt.Fprint(s.err, sessionUsage)
		return wire.ExitFailed
	}
	if err != nil {
		return fail(s, sessionCode(err), err)
	}
	return code
}

// sessionCode is the exit code by which the host finds its words.
func sessionCode(err error) int {
	for sentinel, code := range map[error]int{
		session.ErrExists:    wiresession.ExitExists,
		session.ErrNone:      wiresession.ExitNone,
		session.ErrNoTmux:    wiresession.ExitNoTmux,
		session.ErrNoProgram: wiresession.ExitNoProgram,
	} {
		if errors.Is(err, sentinel) {
			return code
		}
	}
	return wire.ExitFailed
}

func beginSession(ctx context.Context, all session.Sessions, start bool, s streams) error {
	r, err := wiresession.ReadRequest(s.in)
	switch {
	case err != nil:
		return err
	case start:
		return all.Start(ctx, r)
	default:
		return all.Stage(r)
	}
}

func namedSession(ctx context.Context, all session.Sessions, verb, word, lease string, s streams) (int, error) {
	name, err := wiresession.ParseName(word)
	if err == nil && lease != "" {
		_, err = wiresession.ParseName(lease)
	}
	if err != nil {
		return 0, err
	}
	switch verb {
	case "run":
		return all.Run(name)
	case "attach":
		return all.Attach(ctx, name, wiresession.Name(lease))
	case "hold":
		return 0, all.Hold(ctx, name, s.in)
	default:
		return 0, all.Kill(ctx, name)
	}
}

func listSessions(ctx context.Context, all session.Sessions, asJSON bool, s streams) int {
	list := all.List(ctx)
	if asJSON {
		return printJSON(s, wiresession.List{Sessions: list})
	}
	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SESSION\tATTACHED\tSINCE")
	for _, i := range list {
		fmt.Fprintf(table, "%s\t%d\t%s\n", i.Name, i.Attached, i.CreatedAt().Format(time.RFC3339))
	}
	if err := table.Flush(); err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	return wire.ExitOK
}
