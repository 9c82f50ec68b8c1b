package land

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
)

func TestLandPassesTheBoxesWordsOnWithoutTheirControls(t *testing.T) {
	s, _, out, _ := streams.Test()
	o := &Options{
		Streams: s, Box: func(string) (core.Box, error) { return core.Box{Name: "app"}, nil },
		Relay: func(context.Context) (factory.Relay, error) { return nil, nil },
		Land: func(_ context.Context, _ core.Box, w io.Writer) (int, error) {
			_, err := io.WriteString(w, "/workspace agentbox/app landed\n\x1b[8mhidden")
			return 1, err
		},
	}
	var exit fail.Exit
	err := Run(t.Context(), o)
	if !errors.As(err, &exit) || exit != 1 || out.String() != "/workspace agentbox/app landed\n\"\\u001b[8mhidden\"\n" {
		t.Errorf("%v, %q", err, out)
	}
	o.Relay = func(context.Context) (factory.Relay, error) { return nil, errors.New("no relay") }
	if err := Run(t.Context(), o); err == nil || errors.As(err, &exit) {
		t.Errorf("without a relay: %v", err)
	}
}
