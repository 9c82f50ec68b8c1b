package provider

import (
	"context"
	"io"
	"time"

	"github.com/madarco/agentbox/core"
)

// Logger is implemented by providers that keep what the first process of a box
// and its daemon print.
type Logger interface {
	// Logs copies it, oldest first. The box may be stopped. With Follow it goes
	// on until the box stops or the context ends.
	Logs(ctx context.Context, box core.Box, req LogRequest) error
}

// LogRequest says what of a box's log is wanted, and where it goes.
type LogRequest struct {
	// Tail is how many lines, from the end; negative means all.
	Tail int
	// Since leaves out what is older, unless it is zero.
	Since          time.Time
	Follow         bool
	Stdout, Stderr io.Writer
}
