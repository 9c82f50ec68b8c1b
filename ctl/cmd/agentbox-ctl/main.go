// Command agentbox-ctl is the program inside every box: process 1, the daemon,
// the receiver of the host's setup, and what the agent's shell calls.
//
// Dispatch is plain: the program runs at every tool call of an agent, so that
// its start is counted in a few times that of /bin/true.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/madarco/agentbox/core/wire"
)

// version is set by the build.
var version = "dev"

// streams are a command's standard streams.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// command runs with what follows its name and returns the exit code.
type command struct {
	name, summary string
	run           func(ctx context.Context, args []string, s streams) int
}

func commands() []command {
	return []command{
		{"git", "push, pull or fetch through the host", runGit},
		{"gh", "work with pull requests and runs through the host", runGh},
		{"integration", "read from or write to a service through the host", runIntegration},
		{"cp", "copy files to the host", runCp},
		{"land", "hand in the box's commits now", runLand},
		{"notify", "tell the user something", runNotify},
		{"status", "show what the daemon does", runStatus},
		{"version", "print the version", runVersion},
		{"lfs", "turn git-lfs files into pointers and back (run by git)", runLFS},
		{"init", "process 1 of a box (run by the engine)", runInit},
		{"daemon", "the box's daemon (run by init)", runDaemon},
		{"session", "terminal sessions: list, attach, kill (and start, run by the host)", runSession},
		{"sanction", "land another branch, too (run by the host)", runSanction},
		{"pack", "write files to standard output (run by the host)", runPack},
		{"setup", "fill the box from standard input (run by the host)", runSetup},
	}
}

func main() {
	os.Exit(runAs(context.Background(), os.Args, streams{os.Stdin, os.Stdout, os.Stderr}))
}

func run(ctx context.Context, args []string, s streams) int {
	if len(args) == 0 {
		usage(s.err)
		return wire.ExitFailed
	}
	name := args[0]
	switch name {
	case "--version", "-V":
		name = "version"
	case "--help", "-h", "help":
		usage(s.out)
		return wire.ExitOK
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if i < 0 {
		fmt.Fprintf(s.err, "agentbox-ctl: unknown command %q\n", name)
		usage(s.err)
		return wire.ExitFailed
	}
	return all[i].run(ctx, args[1:], s)
}

func usage(w io.Writer) {
	fmt.Fprint(w, "usage: agentbox-ctl <command> [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-11s %s\n", c.name, c.summary)
	}
}

func runVersion(_ context.Context, _ []string, s streams) int {
	fmt.Fprintln(s.out, "agentbox-ctl", version)
	return wire.ExitOK
}

// parse reads a command's flags. ok is false when the command ends here.
func parse(flags *flag.FlagSet, args []string, s streams) (code int, ok bool) {
	flags.SetOutput(s.err)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return wire.ExitOK, false
	case err != nil:
		return wire.ExitFailed, false
	}
	return wire.ExitOK, true
}

func newFlags(name string) *flag.FlagSet {
	return flag.NewFlagSet("agentbox-ctl "+name, flag.ContinueOnError)
}

// fail says what went wrong, in one style, and gives the code back.
func fail(s streams, code int, err error) int {
	fmt.Fprintf(s.err, "agentbox-ctl: %s\n", strings.TrimSpace(err.Error()))
	return code
}
