package main

import (
	"context"
	"errors"
	"strings"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/ctl/relayclient"
)

// runNotify tells the user something, as an event: text of the box, which the
// host shows and does nothing else with.
func runNotify(ctx context.Context, args []string, s streams) int {
	flags := newFlags("notify")
	if code, ok := parse(flags, args, s); !ok {
		return code
	}
	text := strings.TrimSpace(strings.Join(flags.Args(), " "))
	if text == "" {
		return fail(s, wire.ExitBadRequest, errors.New("say what to tell the user: agentbox-ctl notify <text>"))
	}
	client, err := relayclient.New(nil)
	if err != nil {
		return fail(s, wire.ExitRefused, err)
	}
	if err := client.Post(ctx, "notify", map[string]string{"text": text}); err != nil {
		return fail(s, wire.ExitTransport, err)
	}
	return wire.ExitOK
}
