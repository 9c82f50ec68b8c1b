package sandboxdocker

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"

	"github.com/madarco/agentbox/images"
	"github.com/madarco/agentbox/sandbox-docker/engine"
)

// build makes the box image of its flavour's content, and that where it is
// missing.
func (p *Provider) build(ctx context.Context, recipe images.Recipe, ref string, step func(string) func(error)) error {
	labels, err := recipe.Labels()
	if err != nil {
		return err
	}
	contents, err := recipe.Contents()
	if err != nil {
		return err
	}
	below, err := p.content(ctx, recipe, contents, step)
	if err != nil {
		return err
	}
	done := step("add agentbox-ctl")
	err = p.buildFrom(ctx, engine.BuildRequest{
		Args:    map[string]string{"BASE_IMAGE": below.ref},
		Labels:  labels,
		Tag:     ref,
		Network: "none",
	}, recipe.WriteContext)
	done(err)
	return err
}

// content makes sure of the last of a flavour's contents: of those below it
// only where that one has to be built.
func (p *Provider) content(ctx context.Context, recipe images.Recipe, contents []images.Content, step func(string) func(error)) (baseImage, error) {
	if len(contents) == 0 {
		done := step("find a base")
		base, err := p.ensureBase(ctx, recipe)
		done(err)
		return base, err
	}
	top := contents[len(contents)-1]
	// Content is named by repository and flavour: of two versions that take
	// turns the newer one has the name, and old content goes like old images.
	made := baseImage{ref: p.opts.Repository + ":" + string(top.Flavour) + "-content"}
	unlock, err := p.lock(ctx, made.ref)
	if err != nil {
		return made, err
	}
	defer unlock()
	got, err := p.engine.Image(ctx, made.ref)
	if err == nil && carries(got, top.Labels) || err != nil && !errors.Is(err, engine.ErrNotFound) {
		return made, err
	}
	below, err := p.content(ctx, recipe, contents[:len(contents)-1], step)
	if err != nil {
		return made, err
	}
	done := step("build " + string(top.Flavour))
	err = p.buildContent(ctx, top, below, made.ref)
	done(err)
	return made, err
}

// buildContent builds content on what is below it.
func (p *Provider) buildContent(ctx context.Context, content images.Content, below baseImage, ref string) error {
	req := engine.BuildRequest{
		Args:    map[string]string{"BASE_IMAGE": below.ref},
		Labels:  content.Labels,
		Tag:     ref,
		Network: "none",
	}
	if !below.complete {
		home, err := os.UserHomeDir()
		if err != nil {
			home = "" // then there is no configuration of npm in it
		}
		registry, err := npmRegistry(os.Environ(), os.ReadFile, home)
		if err != nil {
			return err
		}
		if registry != "" {
			req.Args["NPM_CONFIG_REGISTRY"] = registry
		}
		req.Network = "agentbox-build-" + rand.Text()
		made := map[string]string{labelManaged: "true", labelBuild: ref}
		defer func() {
			ctx, cancel := settling(ctx)
			defer cancel()
			p.engine.RemoveNetwork(ctx, req.Network) //nolint:errcheck // reported by the build if it was never made
		}()
		if err := p.createNetwork(ctx, req.Network, req.Network, made); err != nil {
			return err
		}
	}
	return p.buildFrom(ctx, req, content.WriteContext)
}

// buildFrom streams a build context to the engine.
func (p *Provider) buildFrom(ctx context.Context, req engine.BuildRequest, write func(io.Writer) error) error {
	from, to := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		to.CloseWithError(write(to))
	}()
	req.Context, req.Log = from, p.opts.Progress
	err := p.engine.Build(ctx, req)
	from.CloseWithError(io.ErrClosedPipe) // frees the writer of a build that ended early
	<-written
	return err
}
