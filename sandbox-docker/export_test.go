package sandboxdocker

import "context"

// Bootstrap lets tests put another program in mmdebstrap's place. The suite
// makes the name of the image.
func (p *Provider) Bootstrap(ctx context.Context, program, suite string) (ref string, err error) {
	b := bootstrap{suite: suite}
	return b.ref(), p.bootstrap(ctx, program, b)
}

// EnsureImage lets tests see the image that a box would be made from.
func (p *Provider) EnsureImage(ctx context.Context) (Image, error) {
	info, err := p.engine.Info(ctx)
	if err != nil {
		return Image{}, err
	}
	return p.image(ctx, info.Arch, "", making{})
}

// RemoveOld does what the making of an image ends with, and waits until no
// other test makes one.
func (p *Provider) RemoveOld(ctx context.Context) error {
	alone := p.lockFile(makers)
	if _, err := alone.TryLockContext(ctx, lockRetry); err != nil {
		return err
	}
	defer alone.Unlock()
	return p.removeOld(ctx)
}
