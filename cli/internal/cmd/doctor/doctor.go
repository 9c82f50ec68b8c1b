// Package doctor is the command `agentbox doctor`: it tries what the others
// need, and says what to do about what fails.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/args"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core/provider"
)

// Options are the options of doctor.
type Options struct {
	Streams *streams.Streams
	Tries   func() []provider.Try

	JSON output.JSON
}

// Result is one try and what came of it.
type Result struct {
	Name string `json:"name"`
	// Status is "ok", "warning", "failed", or "skipped" where what it needs failed.
	Status string `json:"status"`
	Found  string `json:"found,omitempty"`
	// Problem says what is wrong, Next what to do about it.
	Problem string `json:"problem,omitempty"`
	Next    string `json:"next,omitempty"`
}

// The statuses of a Result.
const (
	ok      = "ok"
	warning = "warning"
	failed  = "failed"
	skipped = "skipped"
)

// tryTimeout bounds one try.
const tryTimeout = 20 * time.Second

// New parses the command line of doctor.
func New(f *factory.Factory, tries func() []provider.Try, run func(context.Context, *Options) error) *cli.Command {
	o := &Options{Streams: f.Streams, Tries: tries}
	return &cli.Command{
		Name:  "doctor",
		Usage: "try what agentbox needs on this machine",
		Flags: []cli.Flag{args.JSON(&o.JSON)},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := args.Words(c, f, 0, 0); err != nil {
				return err
			}
			return run(ctx, o)
		},
	}
}

// Run tries everything. It fails only where something failed; a warning is
// not a failure.
func Run(ctx context.Context, o *Options) error {
	if err := output.Check[Result](o.JSON); err != nil {
		return err
	}
	var results []Result
	broken := map[string]bool{}
	for _, t := range o.Tries() {
		var r Result
		if broken[t.Needs] {
			r = Result{Name: t.Name, Status: skipped, Problem: fmt.Sprintf("not tried: the %s does not answer", t.Needs)}
		} else {
			r = try(ctx, t)
			broken[t.Name] = r.Status == failed
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		results = append(results, r)
		if !o.JSON.On {
			fmt.Fprintf(o.Streams.Out, "%s %s: %s\n", mark(r.Status), r.Name, output.Line(r.Found+r.Problem))
			if r.Next != "" {
				fmt.Fprintf(o.Streams.Out, "    next: %s\n", output.Line(r.Next))
			}
		}
	}
	if o.JSON.On {
		if err := output.List(o.Streams.Out, o.JSON, o.Streams.OutTTY, results); err != nil {
			return err
		}
	}
	bad := 0
	for _, r := range results {
		if r.Status == failed {
			bad++
		}
	}
	if bad > 0 {
		return fail.New(fail.Failed, "", "%d of %d tries failed", bad, len(results))
	}
	return nil
}

func try(ctx context.Context, t provider.Try) Result {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	found, err := t.Run(ctx)
	if err == nil {
		return Result{Name: t.Name, Status: ok, Found: found}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s: %w", tryTimeout, err)
	}
	r := Result{Name: t.Name, Status: failed, Problem: err.Error(), Next: fail.Of(err).Next}
	if t.Soft {
		r.Status = warning
	}
	if r.Next == "agentbox doctor" {
		r.Next = ""
	}
	return r
}

func mark(status string) string {
	switch status {
	case ok:
		return "✓"
	case warning:
		return "⚠"
	case skipped:
		return "-"
	default:
		return "✗"
	}
}
