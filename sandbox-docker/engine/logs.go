package engine

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/moby/moby/client"

	"github.com/madarco/agentbox/core/provider"
)

// Logs copies what a container has printed. The error wraps ErrNotFound when
// there is no such container.
func (e *Engine) Logs(ctx context.Context, container string, req provider.LogRequest) error {
	options := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: req.Follow, Tail: "all"}
	if req.Tail >= 0 {
		options.Tail = strconv.Itoa(req.Tail)
	}
	if !req.Since.IsZero() {
		options.Since = req.Since.Format(time.RFC3339Nano)
	}
	log, err := e.api.ContainerLogs(ctx, container, options)
	if err != nil {
		return e.failed(ctx, "read the log of "+container, err)
	}
	defer log.Close()
	err = demultiplex(orDiscard(req.Stdout), orDiscard(req.Stderr), log)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return fmt.Errorf("read the log of %s: %w", container, err)
	}
	return nil
}
