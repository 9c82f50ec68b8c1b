package sandboxdocker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sandboxdocker "github.com/madarco/agentbox/sandbox-docker"
	"github.com/madarco/agentbox/sandbox-docker/engine"
)

// script writes a program that stands in for mmdebstrap.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBootstrapImportsOnlyWhatEndedWell(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		words  string // of the error, "" for none
	}{
		"works":          {"cd /etc && tar -c hostname", ""},
		"fails half-way": {"cd /etc && tar -c hostname; echo 'E: mirror is down' >&2; exit 25", "mirror is down"},
		"fails at once":  {"echo 'E: needs root' >&2; exit 1", "needs root"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, endpoint(t))
			p, err := sandboxdocker.New(o)
			if err != nil {
				t.Fatal(err)
			}
			ref, err := p.Bootstrap(t.Context(), script(t, c.script), "test"+strings.ReplaceAll(name, " ", "-"))
			if c.words == "" {
				if err != nil {
					t.Errorf("Bootstrap: %v", err)
				}
				if err := o.Engine.RemoveImage(t.Context(), ref); err != nil {
					t.Errorf("the image was not imported: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("Bootstrap: %v, want %q", err, c.words)
			}
			if _, err := o.Engine.Image(t.Context(), ref); !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("half an image was imported: %v", err)
			}
		})
	}
}

func TestCancelledBootstrapTidiesUp(t *testing.T) {
	t.Parallel()
	tidied := filepath.Join(t.TempDir(), "tidied")
	ctx, cancel := context.WithCancel(t.Context())
	o := options(t, endpoint(t))
	o.Progress = func(line string) {
		if line == "up" {
			cancel()
		}
	}
	p, err := sandboxdocker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	// Like mmdebstrap it waits for its child, which must therefore be told too.
	ref, err := p.Bootstrap(ctx, script(t, "trap 'touch "+tidied+"; exit 1' TERM\nsleep 1000 & echo up >&2; wait; wait\n"), "testcancel")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled Bootstrap: %v", err)
	}
	if _, err := os.Stat(tidied); err != nil {
		t.Errorf("the program could not tidy up: %v", err)
	}
	if _, err := o.Engine.Image(t.Context(), ref); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("an image was imported: %v", err)
	}
}
