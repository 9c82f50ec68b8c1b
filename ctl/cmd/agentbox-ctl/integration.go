package main

import (
	"context"
	"fmt"
	"os"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/integration"
	"github.com/madarco/agentbox/ctl/relayclient"
	"github.com/madarco/agentbox/integrations"
)

// runIntegration asks for an operation of a service that the host speaks to.
func runIntegration(ctx context.Context, args []string, s streams) int {
	r, err := integration.Parse(args)
	if err != nil {
		return fail(s, wire.ExitBadRequest, err)
	}
	return askIntegration(ctx, r, s)
}

// integrationShim stands in for the program of a service.
func integrationShim(service integrations.Service) func(context.Context, []string, streams) int {
	return func(ctx context.Context, args []string, s streams) int {
		r, err := integration.Shim(service, args)
		if err != nil {
			return fail(s, wire.ExitUsage, err)
		}
		return askIntegration(ctx, r, s)
	}
}

func init() {
	for name, service := range integration.Shims() {
		shims[name] = integrationShim(service)
	}
}

func askIntegration(ctx context.Context, r integration.Request, s streams) int {
	client, err := relayclient.New(func(text string) { fmt.Fprintf(s.err, "agentbox-ctl: %s\n", text) })
	if err != nil {
		return fail(s, wire.ExitRefused, err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return fail(s, wire.ExitFailed, err)
	}
	answer, err := client.Call(ctx, r.Method, wire.IntegrationParams{Path: dir, Args: r.Args})
	if err != nil {
		return fail(s, wire.ExitTransport, err)
	}
	fmt.Fprint(s.out, answer.Stdout)
	fmt.Fprint(s.err, answer.Stderr)
	return answer.ExitCode
}
