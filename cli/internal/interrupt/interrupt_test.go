package interrupt

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/madarco/agentbox/cli/internal/fail"
)

func TestTheFirstInterruptCleansUpAndTheSecondLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var words strings.Builder
		var codes []int
		i := &Watcher{w: &words, exit: func(code int) { codes = append(codes, code) }}
		signals := make(chan os.Signal)
		ctx, stop := i.watch(context.Background(), signals)
		defer stop()
		i.Remains("container agentbox-app")

		signals <- os.Interrupt
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), fail.ErrInterrupted) || len(codes) != 0 {
			t.Fatalf("after the first: cause %v, exits %v", context.Cause(ctx), codes)
		}
		signals <- os.Interrupt
		synctest.Wait()
		if len(codes) != 1 || codes[0] != 130 || !strings.Contains(words.String(), "container agentbox-app") {
			t.Errorf("after the second: exits %v, words %q", codes, words.String())
		}
	})
}

func TestNothingIsSaidWhereNothingRemains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var words strings.Builder
		i := &Watcher{w: &words, exit: func(int) { t.Error("the process ended") }}
		signals := make(chan os.Signal)
		ctx, stop := i.watch(context.Background(), signals)
		signals <- os.Interrupt
		synctest.Wait()
		stop()
		if ctx.Err() == nil || words.Len() != 0 {
			t.Errorf("%v, %q", ctx.Err(), words.String())
		}
	})
}
