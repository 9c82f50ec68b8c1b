package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	rules "github.com/madarco/agentbox/core/transfer"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/relayclient"
	"github.com/madarco/agentbox/ctl/transfer"
)

// runCp asks the host to copy files.
func runCp(ctx context.Context, args []string, s streams) int {
	dir, err := os.Getwd()
	if err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	r, err := transfer.Parse(args, dir)
	if err != nil {
		return fail(s, wire.ExitBadRequest, err)
	}
	client, err := relayclient.New(func(text string) { fmt.Fprintf(s.err, "agentbox-ctl: %s\n", text) })
	if err != nil {
		return fail(s, wire.ExitRefused, err)
	}
	answer, err := client.Call(ctx, r.Method, r.Params)
	if err != nil {
		return fail(s, wire.ExitTransport, err)
	}
	fmt.Fprint(s.out, answer.Stdout)
	fmt.Fprint(s.err, answer.Stderr)
	return answer.ExitCode
}

// runPack writes the files of a copy, as JSON on standard input asks for them,
// to standard output.
func runPack(_ context.Context, _ []string, s streams) int {
	var c rules.Copy
	if err := json.NewDecoder(s.in).Decode(&c); err != nil {
		return fail(s, wire.ExitBadRequest, fmt.Errorf("read what to pack: %w", err))
	}
	if err := transfer.Pack(c, s.out, func(text string) { fmt.Fprintf(s.err, "agentbox-ctl: %s\n", text) }); err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	return wire.ExitOK
}
