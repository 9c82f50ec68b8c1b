package sandboxdocker

import (
	"context"

	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/images"
)

// Prepare implements provider.Preparer.
func (p *Provider) Prepare(ctx context.Context, req provider.PrepareRequest) (provider.ImageStatus, error) {
	info, err := p.engine.Info(ctx)
	if err != nil {
		return provider.ImageStatus{}, err
	}
	image, err := p.image(ctx, info.Arch, req.Image, making{build: req.Build, step: req.Step})
	if err != nil {
		return provider.ImageStatus{}, err
	}
	if flavour, ours := p.named(req.Image); ours {
		return p.status(ctx, info.Arch, flavour)
	}
	known := short(image.Labels[images.LabelFingerprint])
	return provider.ImageStatus{Image: image.Ref, State: provider.ImageFresh, Ref: image.Ref, ID: image.ID, Was: known, Now: known}, nil
}

// Images implements provider.Preparer.
func (p *Provider) Images(ctx context.Context) ([]provider.ImageStatus, error) {
	info, err := p.engine.Info(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]provider.ImageStatus, 0, len(images.Flavours))
	for _, flavour := range images.Flavours {
		status, err := p.status(ctx, info.Arch, flavour)
		if err != nil {
			return nil, err
		}
		all = append(all, status)
	}
	return all, nil
}

// status judges a flavour's image as ensureImage does.
func (p *Provider) status(ctx context.Context, arch string, flavour images.Flavour) (provider.ImageStatus, error) {
	w, err := p.want(arch, flavour)
	if err != nil {
		return provider.ImageStatus{}, err
	}
	image, ok, err := p.present(ctx, w)
	if err != nil {
		return provider.ImageStatus{}, err
	}
	s := provider.ImageStatus{Image: string(flavour), State: provider.ImageStale, Ref: w.ref, ID: image.ID, Was: identity(w, image.Labels), Now: identity(w, w.labels)}
	switch {
	case ok:
		s.State = provider.ImageFresh
	case image.ID == "":
		s.State = provider.ImageMissing
	}
	return s, nil
}

// identity is what tells two images of a flavour apart, for people: the
// fingerprint, or the version where that can't be known, and the certificates
// of the host, if there are any.
func identity(w wanted, labels map[string]string) string {
	known := short(labels[images.LabelFingerprint])
	if w.noCtl {
		known = labels[images.LabelVersion]
	}
	if extra := labels[images.LabelExtraCA]; extra != "" {
		known += "+" + short(extra)
	}
	return known
}

// short cuts a digest to what people can compare.
func short(digest string) string { return digest[:min(len(digest), 12)] }
