package doctor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/sandbox-core/state"
)

func says(found string, err error) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return found, err }
}

func TestDoctor(t *testing.T) {
	tries := []provider.Try{
		{Name: "engine", Run: says("27.1", nil)},
		{Name: "image", Soft: true, Run: says("", errors.New("missing; the next create makes it"))},
		{Name: "relay", Run: says("", errors.New("said \x1b[2J"))},
		{Name: "state", Run: says("", fmt.Errorf("read: %w", state.ErrNewer))},
		{Name: "docker", Run: says("", &provider.UnavailableError{What: "docker at x", Next: "start it"})},
		{Name: "network", Needs: "docker", Run: func(context.Context) (string, error) { t.Error("tried without what it needs"); return "", nil }},
		{Name: "box", Needs: "engine", Run: says("sealed", nil)},
	}
	s, _, out, _ := streams.Test()
	err := Run(t.Context(), &Options{Streams: s, Tries: func() []provider.Try { return tries }})
	want := "✓ engine: 27.1\n⚠ image: missing; the next create makes it\n✗ relay: \"said \\u001b[2J\"\n" +
		"✗ state: read: a newer version of agentbox wrote the state file\n    next: update agentbox, or set AGENTBOX_HOME to another folder\n" +
		"✗ docker: docker at x: not reachable\n    next: start it\n- network: not tried: the docker does not answer\n✓ box: sealed\n"
	if out.String() != want || fail.Of(err).Code != fail.Failed || err.Error() != "3 of 7 tries failed" {
		t.Errorf("got %q, %v", out, err)
	}

	s, _, out, _ = streams.Test()
	err = Run(t.Context(), &Options{Streams: s, JSON: output.JSON{On: true, Fields: []string{"name", "status"}}, Tries: func() []provider.Try { return tries[:2] }})
	if want := `[{"name":"engine","status":"ok"},{"name":"image","status":"warning"}]` + "\n"; err != nil || out.String() != want {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestATryThatHangsFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, out, _ := streams.Test()
		hang := provider.Try{Name: "engine", Run: func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }}
		err := Run(t.Context(), &Options{Streams: s, Tries: func() []provider.Try { return []provider.Try{hang} }})
		if fail.Of(err).Code != fail.Failed || out.String() != "✗ engine: no answer within 20s: context deadline exceeded\n" {
			t.Errorf("got %q, %v", out, err)
		}
	})
}
