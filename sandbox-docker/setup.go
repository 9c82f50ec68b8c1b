package sandboxdocker

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/capped"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/setup"
	"github.com/madarco/agentbox/core/wire"
)

// maxAnswer caps what is kept of a box's answer; the rest is read and dropped.
const maxAnswer = 64 << 10

// errEnded is what the writer of a setup stream meets when the box reads no
// further; the box's own report says why.
var errEnded = errors.New("the box's setup has ended")

// setUp runs `agentbox-ctl setup` in the box and feeds it what fill writes.
func (p *Provider) setUp(ctx context.Context, container string, fill provider.Setup) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to := io.Pipe()
	filled := make(chan error, 1)
	go func() {
		err := fill(ctx, to)
		to.CloseWithError(err) // Exec gives up when its input fails
		filled <- err
	}()
	stdout, stderr := capped.Buffer{Max: maxAnswer}, capped.Buffer{Max: maxAnswer}
	code, ran := p.engine.Exec(ctx, container, provider.ExecRequest{
		Argv:    []string{ctlPath, "setup"},
		User:    BoxUser,
		WorkDir: "/",
		Stdin:   from,
		Stdout:  &stdout,
		Stderr:  &stderr,
	})
	from.CloseWithError(errEnded)
	cancel()
	if err := <-filled; err != nil && !errors.Is(err, errEnded) && !(ran == nil && errors.Is(err, context.Canceled)) {
		return fmt.Errorf("fill the box: %w", err)
	}
	if ran != nil {
		return fmt.Errorf("set the box up: %w", ran)
	}
	return judge(code, stdout.Bytes(), stderr.Bytes())
}

// judge reads the box's report. Everything in it is the box's text.
func judge(code int, stdout, stderr []byte) error {
	var report setup.Report
	err := wire.Decode(stdout, &report)
	switch {
	case err == nil && code == 0 && report.OK:
		return nil
	case err == nil && report.Error != "":
		return fmt.Errorf("set the box up: the box says %s", report.Error.Quote())
	}
	return fmt.Errorf("set the box up: %s in the box ended with code %d and no report; it printed %s", ctlPath, code, core.Untrusted(stderr).QuoteMax(1000))
}
