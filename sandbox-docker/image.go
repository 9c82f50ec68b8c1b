package sandboxdocker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/images"
	"github.com/madarco/agentbox/sandbox-docker/engine"
)

// Image is a box image in the engine.
type Image struct {
	Ref    string
	ID     string
	Labels map[string]string
}

// EnsureImage makes sure that the engine has the box image of this very
// version: it uses the one that is there, else pulls the one that the registry
// has for the same fingerprint (once; any failure counts as "it has none"),
// else builds it. Processes and goroutines that need the image at the same
// time wait for the one that makes it. The error wraps provider.ErrNoImage
// when there is none in the end.
func (p *Provider) EnsureImage(ctx context.Context) (Image, error) {
	info, err := p.engine.Info(ctx)
	if err != nil {
		return Image{}, err
	}
	return p.ensureImage(ctx, info.Arch)
}

func (p *Provider) ensureImage(ctx context.Context, arch string) (Image, error) {
	w, err := p.want(arch)
	if err != nil {
		return Image{}, err
	}
	if image, ok, err := p.present(ctx, w); ok || err != nil {
		return image, err
	}
	unlock, err := lock(ctx, p.opts.ImageLock)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if image, ok, err := p.present(ctx, w); ok || err != nil {
		return image, err
	}
	// The image that had the name before stays: another agentbox may be about
	// to make a box from it, and it shares all large layers with the new one.
	if err := p.make(ctx, w); err != nil {
		return Image{}, fmt.Errorf("%w: %w", provider.ErrNoImage, err)
	}
	image, ok, err := p.present(ctx, w)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s was made, but has other labels than it should", provider.ErrNoImage, w.ref)
	}
	return image, err
}

// wanted is the image that this version needs. Without an agentbox-ctl to put
// in, the fingerprint can't be known; the version then stands in for it.
type wanted struct {
	ref    string
	recipe images.Recipe
	noCtl  bool
	labels map[string]string // what the image must carry
	remote string            // its reference in the registry, "" for none
}

func (p *Provider) want(arch string) (wanted, error) {
	extra, err := images.HostCAs(os.DirFS(images.HostCADir))
	if err != nil {
		return wanted{}, err
	}
	w := wanted{ref: p.opts.Repository + ":" + string(p.opts.Flavour)}
	w.recipe = images.Recipe{
		Flavour: p.opts.Flavour,
		Base:    p.opts.BaseImage,
		Arch:    arch,
		ExtraCA: extra,
		Version: p.opts.Version,
	}
	w.recipe.Ctl, err = p.opts.Ctl(arch)
	switch {
	case errors.Is(err, images.ErrNoCtl):
		w.noCtl = true
	case err != nil:
		return w, err
	}
	err = p.identify(&w)
	return w, err
}

// identify derives from the recipe what the image is known by.
func (p *Provider) identify(w *wanted) error {
	all, err := w.recipe.Labels()
	if err != nil {
		return err
	}
	key, tag := images.LabelFingerprint, "sha-"+all[images.LabelFingerprint][:16]
	if w.noCtl {
		key, tag = images.LabelVersion, w.recipe.Version+"-"+string(w.recipe.Flavour)
	}
	w.labels = map[string]string{key: all[key], images.LabelFlavour: all[images.LabelFlavour], images.LabelExtraCA: all[images.LabelExtraCA]}
	if p.opts.Registry != "" && (!w.noCtl || released(w.recipe.Version)) {
		w.remote = p.opts.Registry + ":" + tag
	}
	return nil
}

// present looks the local image up and tells whether it is the wanted one.
func (p *Provider) present(ctx context.Context, w wanted) (Image, bool, error) {
	got, err := p.engine.Image(ctx, w.ref)
	if errors.Is(err, engine.ErrNotFound) {
		return Image{}, false, nil
	}
	return Image{Ref: w.ref, ID: got.ID, Labels: got.Labels}, carries(got, w.labels), err
}

// carries compares labels; one that is missing equals one that is empty.
func carries(image engine.Image, labels map[string]string) bool {
	for key, value := range labels {
		if image.Labels[key] != value {
			return false
		}
	}
	return true
}

// make pulls or builds the wanted image.
func (p *Provider) make(ctx context.Context, w wanted) error {
	if w.remote != "" {
		if made, err := p.pullReady(ctx, w); made || err != nil {
			return err
		}
	}
	if w.noCtl {
		ctl, err := buildCtl(ctx, w.recipe.Version, w.recipe.Arch, p.opts.Progress)
		if err != nil {
			return err
		}
		w.recipe.Ctl = ctl
	}
	return p.build(ctx, w.recipe, w.ref)
}

// How long a registry may be silent: before its first word, and later.
const (
	firstWord = 15 * time.Second
	nextWord  = 60 * time.Second
)

// pull fetches an image unless the registry stays silent.
func (p *Provider) pull(ctx context.Context, ref string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := time.AfterFunc(firstWord, cancel)
	defer patience.Stop()
	return p.engine.Pull(ctx, ref, func(line string) {
		patience.Reset(nextWord)
		p.opts.Progress(line)
	})
}

// pullReady tries to get the image ready-made. A miss is no error.
func (p *Provider) pullReady(ctx context.Context, w wanted) (bool, error) {
	p.opts.Progress("look for " + w.remote)
	if err := p.pull(ctx, w.remote); err != nil {
		p.opts.Progress("it can't be had ready-made, so it is built here (" + err.Error() + ")")
		return false, ctx.Err()
	}
	got, err := p.engine.Image(ctx, w.remote)
	if err != nil {
		return false, err
	}
	defer p.engine.RemoveImage(ctx, w.remote) //nolint:errcheck // the image keeps its local name
	shipped := maps.Clone(w.labels)
	delete(shipped, images.LabelExtraCA) // an image for everybody has none
	if !carries(got, shipped) || got.Labels[images.LabelExtraCA] != "" {
		p.opts.Progress(w.remote + " is not the image that its name promises")
		return false, nil
	}
	if len(w.recipe.ExtraCA) == 0 {
		return true, p.engine.Tag(ctx, w.remote, w.ref)
	}
	return true, p.buildFrom(ctx, engine.BuildRequest{
		Args:    map[string]string{"BASE_IMAGE": w.remote},
		Labels:  map[string]string{images.LabelExtraCA: w.recipe.ExtraCADigest()},
		Tag:     w.ref,
		Network: "none",
	}, w.recipe.WriteTrustContext)
}

// build builds the image from its base.
func (p *Provider) build(ctx context.Context, recipe images.Recipe, ref string) error {
	base, err := p.ensureBase(ctx, recipe)
	if err != nil {
		return err
	}
	labels, err := recipe.Labels()
	if err != nil {
		return err
	}
	network := "none"
	if !base.complete {
		network = "agentbox-build-" + rand.Text()
		made := map[string]string{labelManaged: "true"}
		defer func() {
			ctx, cancel := settling(ctx)
			defer cancel()
			p.engine.RemoveNetwork(ctx, network) //nolint:errcheck // reported by the build if it was never made
		}()
		if err := p.createNetwork(ctx, network, network, made); err != nil {
			return err
		}
	}
	return p.buildFrom(ctx, engine.BuildRequest{
		Args:    map[string]string{"BASE_IMAGE": base.ref},
		Labels:  labels,
		Tag:     ref,
		Network: network,
	}, recipe.WriteContext)
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

// lockRetry spaces the attempts to get a lock that another process holds.
const lockRetry = 100 * time.Millisecond

// lock takes the lock file, waiting as long as ctx allows.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("lock the making of images: %w", err)
	}
	held := flock.New(path, flock.SetPermissions(0o600))
	if _, err := held.TryLockContext(ctx, lockRetry); err != nil {
		return nil, fmt.Errorf("wait for another agentbox that makes the box image (lock %s): %w", path, err)
	}
	return func() { held.Unlock() }, nil //nolint:errcheck // closing the file frees it in any case
}
