package prepare

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/output"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core/provider"
)

// shelf is a provider that has images.
type shelf struct {
	provider.Provider
	req provider.PrepareRequest
	err error
}

func (*shelf) Name() string { return "docker" }

func (s *shelf) Prepare(_ context.Context, req provider.PrepareRequest) (provider.ImageStatus, error) {
	s.req = req
	req.Step("build full")(s.err)
	return provider.ImageStatus{Image: "full", State: provider.ImageFresh, Ref: "agentbox/box:full", ID: "sha256:1", Was: "aaa", Now: "aaa"}, s.err
}

func (*shelf) Images(context.Context) ([]provider.ImageStatus, error) {
	return []provider.ImageStatus{
		{Image: "lean", State: provider.ImageStale, Ref: "agentbox/box:lean", ID: "sha256:2", Was: "a\x1b[31mb", Now: "ccc"},
		{Image: "full", State: provider.ImageMissing, Ref: "agentbox/box:full", Now: "ddd"},
	}, nil
}

func options(s *streams.Streams, p provider.Provider) *Options {
	return &Options{
		Streams: s, ProviderName: "docker", Provider: func(string) (provider.Provider, error) { return p, nil },
		Step: func(string) func(error) { return func(error) {} },
	}
}

func TestPrepareMakesTheImage(t *testing.T) {
	s, _, out, _ := streams.Test()
	p := &shelf{}
	o := options(s, p)
	o.Image, o.Build = "full", true
	if err := Run(t.Context(), o); err != nil || out.String() != "full  fresh  agentbox/box:full\n" {
		t.Errorf("%v, %s", err, out)
	}
	if p.req.Image != "full" || !p.req.Build {
		t.Errorf("asked for %+v", p.req)
	}
	out.Reset()
	o.JSON = output.JSON{On: true, Fields: []string{"image", "state"}}
	if err := Run(t.Context(), o); err != nil || out.String() != `{"image":"full","state":"fresh"}`+"\n" {
		t.Errorf("%v, %s", err, out)
	}
}

func TestStatusShowsWhatACreateWouldFind(t *testing.T) {
	s, _, out, _ := streams.Test()
	p := &shelf{err: errors.New("made")}
	o := options(s, p)
	o.Status = true
	want := `lean  stale    "agentbox/box:lean, was a\u001b[31mb, now ccc; the next create makes it anew"` + "\nfull  missing  agentbox/box:full; the next create makes it\n"
	if err := Run(t.Context(), o); err != nil || out.String() != want {
		t.Errorf("%v, %q", err, out)
	}
	out.Reset()
	o.JSON = output.JSON{On: true, Fields: []string{"state", "was"}}
	if err := Run(t.Context(), o); err != nil || out.String() != `[{"state":"stale","was":"a\u001b[31mb"},{"state":"missing","was":""}]`+"\n" {
		t.Errorf("%v, %s", err, out)
	}
}

func TestWhatKeepsAnImageFromBeingMade(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code fail.Code
		next string
	}{
		"a full disk": {
			fmt.Errorf("%w: build image: %w: write /x: no space left on device", provider.ErrNoImage, provider.ErrNoSpace),
			fail.Unavailable, "make room where the engine keeps its data: docker system df shows what takes it, docker image prune frees some",
		},
		"no network": {
			fmt.Errorf("%w: build image: could not resolve host", provider.ErrNoImage),
			fail.Unavailable, "agentbox prepare tries again and shows each step; to build the image takes a network",
		},
		"an image that is not there": {
			fmt.Errorf("%w: mine", provider.ErrUnknownImage), fail.Unavailable, "docker pull it, or leave out --image and box.image",
		},
		"no engine":   {fmt.Errorf("ask: %w", provider.ErrUnavailable), fail.Unavailable, "agentbox doctor"},
		"an old ctl":  {fmt.Errorf("image mine: %w", provider.ErrWrongImage), fail.Unavailable, ""},
		"interrupted": {fmt.Errorf("%w: %w", provider.ErrNoImage, context.Canceled), fail.Interrupted, ""},
	} {
		s, _, out, _ := streams.Test()
		err := fail.Of(Run(t.Context(), options(s, &shelf{err: c.err})))
		if err.Code != c.code || err.Next != c.next || out.Len() != 0 {
			t.Errorf("%s: code %d, next %q, printed %q", name, err.Code, err.Next, out)
		}
	}
}

func TestBadFieldsAndProvidersAreRefused(t *testing.T) {
	s, _, _, _ := streams.Test()
	o := options(s, &shelf{})
	o.JSON = output.JSON{On: true, Fields: []string{"token"}}
	if err := Run(t.Context(), o); fail.Of(err).Code != fail.Usage {
		t.Errorf("an unknown field: %v", err)
	}
	o = options(s, &shelf{})
	o.ProviderName = "moon"
	if err := Run(t.Context(), o); fail.Of(err).Code != fail.Usage {
		t.Errorf("an unknown provider: %v", err)
	}
	if err := Run(t.Context(), options(s, bare{})); !errors.Is(err, provider.ErrUnsupported) {
		t.Errorf("a provider without images: %v", err)
	}
}

type bare struct{ provider.Provider }

func (bare) Name() string { return "docker" }
