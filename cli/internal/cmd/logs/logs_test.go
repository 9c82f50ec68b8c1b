package logs

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

type engine struct {
	provider.Provider
	got  provider.LogRequest
	text string
}

func (e *engine) Logs(ctx context.Context, _ core.Box, req provider.LogRequest) error {
	e.got = req
	io.WriteString(req.Stdout, e.text)                                         //nolint:errcheck // a buffer
	io.WriteString(req.Stderr, "agentbox-ctl daemon: listening\nnoise\x1b[2J") //nolint:errcheck // a buffer
	if req.Follow {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func options(p provider.Provider) (o *Options, out, words func() string) {
	s, _, stdout, stderr := streams.Test()
	return &Options{
		Streams: s, Lines: 200, Now: func() time.Time { return noon },
		Box:      func(string) (core.Box, error) { return core.Box{Name: "app"}, nil },
		Provider: func(string) (provider.Provider, error) { return p, nil },
	}, stdout.String, stderr.String
}

func TestTheLogIsTheBoxesText(t *testing.T) {
	e := &engine{text: "hello\n\x1b]52;c;aGk=\x07\n"}
	o, out, words := options(e)
	o.Since = "10m"
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if out() != "hello\n\"\\u001b]52;c;aGk=\\u0007\"\n" || words() != "agentbox-ctl daemon: listening\n\"noise\\u001b[2J\"\n" {
		t.Errorf("%q, %q", out(), words())
	}
	if e.got.Tail != 200 || e.got.Follow || !e.got.Since.Equal(noon.Add(-10*time.Minute)) {
		t.Errorf("asked for %+v", e.got)
	}
	o, out, words = options(e)
	o.Daemon = true
	if err := Run(t.Context(), o); err != nil || out() != "" || words() != "agentbox-ctl daemon: listening\n" {
		t.Errorf("--daemon: %v, %q, %q", err, out(), words())
	}
}

func TestAnInterruptEndsFollowing(t *testing.T) {
	o, _, _ := options(&engine{})
	o.Follow = true
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fail.ErrInterrupted)
	var exit fail.Exit
	if err := Run(ctx, o); !errors.As(err, &exit) || exit != 130 {
		t.Error(err)
	}
}

func TestWhatCannotBeShown(t *testing.T) {
	for what, change := range map[string]func(*Options){
		"a time":             func(o *Options) { o.Since = "yesterday" },
		"a time to come":     func(o *Options) { o.Since = "-5m" },
		"a negative number":  func(o *Options) { o.Lines = -1 },
		"a service":          func(o *Options) { o.Service = "web" },
		"a provider without": func(o *Options) { o.Provider = func(string) (provider.Provider, error) { return silent{}, nil } },
	} {
		e := &engine{}
		o, out, _ := options(e)
		change(o)
		if err := Run(t.Context(), o); fail.Of(err).Code != fail.Usage || out() != "" || e.got.Stdout != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

type silent struct{ provider.Provider }

func (silent) Name() string { return "silent" }
