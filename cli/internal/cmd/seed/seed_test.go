package seed

import (
	"context"
	"errors"
	"testing"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/relay/gitgate"
)

func TestPurgeTellsWhatItFreed(t *testing.T) {
	s, _, out, _ := streams.Test()
	var err error
	o := &Options{Streams: s, Purge: func(context.Context) (gitgate.Purged, error) {
		return gitgate.Purged{Before: 3 << 20, After: 1 << 20}, err
	}}
	if err := RunPurge(t.Context(), o); err != nil || out.String() != "seed store: 1 MB, was 3 MB\n" {
		t.Errorf("%v, %q", err, out)
	}
	err = gitgate.ErrInUse
	if err := RunPurge(t.Context(), o); !errors.Is(err, gitgate.ErrInUse) || fail.Of(err).Code != fail.Refused {
		t.Errorf("while boxes live: %v", err)
	}
}
