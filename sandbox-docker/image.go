package sandboxdocker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/madarco/agentbox/core"
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

// making says how an image is made where it is missing.
type making struct {
	build bool // without asking the registry for it
	step  func(name string) (done func(error))
}

// image finds the image that a request names: a flavour of ours, or a
// reference of the user's.
func (p *Provider) image(ctx context.Context, arch, name string, how making) (Image, error) {
	if flavour, ours := p.named(name); ours {
		how.step = steps(how.step)
		return p.ensureImage(ctx, arch, flavour, how)
	}
	return p.givenImage(ctx, arch, cmp.Or(name, p.opts.Image))
}

// named tells whether a name of an image, "" for the provider's own, is that
// of a flavour, and of which.
func (p *Provider) named(name string) (images.Flavour, bool) {
	flavour := images.Flavour(cmp.Or(name, p.opts.Image))
	return flavour, slices.Contains(images.Flavours, flavour)
}

// givenImage looks an image of the user's up. It must hold the agentbox-ctl
// that this version talks to.
func (p *Provider) givenImage(ctx context.Context, arch, ref string) (Image, error) {
	got, err := p.engine.Image(ctx, ref)
	if errors.Is(err, engine.ErrNotFound) {
		err = fmt.Errorf("%w: %w", provider.ErrUnknownImage, err)
	}
	if err != nil {
		return Image{}, err
	}
	w, err := p.want(arch, images.Lean)
	if err != nil {
		return Image{}, err
	}
	key, want := images.LabelCtl, w.recipe.CtlDigest()
	if w.noCtl {
		key, want = images.LabelVersion, p.opts.Version
	}
	switch got.Labels[key] {
	case want:
		return Image{Ref: ref, ID: got.ID, Labels: got.Labels}, nil
	case "":
		return Image{}, fmt.Errorf("image %s: %w: it holds no agentbox-ctl; build it FROM %s:full or :lean", ref, provider.ErrWrongImage, p.opts.Repository)
	}
	return Image{}, fmt.Errorf("image %s: %w: its agentbox-ctl is that of agentbox %s; run `agentbox prepare`, and build it anew FROM %s:full or :lean",
		ref, provider.ErrWrongImage, core.Untrusted(got.Labels[images.LabelVersion]).Quote(), p.opts.Repository)
}

// ensureImage makes sure that the engine has this very version's image of a
// flavour: it uses the one that is there, else pulls the one that the registry
// has for the same fingerprint (once; any failure counts as "it has none"),
// else builds it. Processes and goroutines that need the image at the same
// time wait for the one that makes it. The error wraps provider.ErrNoImage
// when there is none in the end.
func (p *Provider) ensureImage(ctx context.Context, arch string, flavour images.Flavour, how making) (Image, error) {
	w, err := p.want(arch, flavour)
	if err != nil {
		return Image{}, err
	}
	if image, ok, err := p.present(ctx, w); ok || err != nil {
		return image, err
	}
	unlock, err := p.lock(ctx, w.ref)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if image, ok, err := p.present(ctx, w); ok || err != nil {
		return image, err
	}
	if how.build {
		w.remote = ""
	}
	if err := p.make(ctx, w, how.step); err != nil {
		return Image{}, fmt.Errorf("%w: %w", provider.ErrNoImage, err)
	}
	image, ok, err := p.present(ctx, w)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s was made, but has other labels than it should", provider.ErrNoImage, w.ref)
	}
	return image, errors.Join(err, p.dropOld(ctx))
}

// dropOld removes the images of ours that have lost their name to a newer one
// and that no container uses. While somebody makes an image it does nothing:
// what a build has made so far looks the same.
func (p *Provider) dropOld(ctx context.Context) error {
	alone := p.lockFile(makers)
	if got, err := alone.TryLock(); !got || err != nil {
		return err
	}
	defer alone.Unlock() //nolint:errcheck // closing the file frees it in any case
	return p.removeOld(ctx)
}

func (p *Provider) removeOld(ctx context.Context) error {
	old, err := p.engine.UntaggedImages(ctx, images.LabelContent)
	for _, id := range old {
		gone := p.engine.RemoveImage(ctx, id)
		if gone != nil && !errors.Is(gone, engine.ErrConflict) && !errors.Is(gone, engine.ErrNotFound) {
			err = errors.Join(err, gone)
		}
	}
	return err
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

func (p *Provider) want(arch string, flavour images.Flavour) (wanted, error) {
	extra, err := images.HostCAs(os.DirFS(images.HostCADir))
	if err != nil {
		return wanted{}, err
	}
	w := wanted{ref: p.opts.Repository + ":" + string(flavour)}
	w.recipe = images.Recipe{
		Flavour: flavour,
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
	key, tag := images.LabelFingerprint, string(w.recipe.Flavour)+"-sha-"+all[images.LabelFingerprint][:16]
	if w.noCtl {
		key, tag = images.LabelVersion, string(w.recipe.Flavour)+"-"+w.recipe.Version
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
func (p *Provider) make(ctx context.Context, w wanted, step func(string) func(error)) error {
	making := p.lockFile(makers)
	if _, err := making.TryRLockContext(ctx, lockRetry); err != nil {
		return fmt.Errorf("wait for old images to be removed: %w", err)
	}
	defer making.Unlock() //nolint:errcheck // closing the file frees it in any case
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
	return p.build(ctx, w.recipe, w.ref, step)
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

// lockRetry spaces the attempts to get a lock that another process holds.
const lockRetry = 100 * time.Millisecond

// makers is the lock that all who make images share, and that who removes
// images has alone.
const makers = "makers"

// lockFile is the lock of a name, for all who use this engine as this user.
func (p *Provider) lockFile(name string) *flock.Flock {
	id := sha256.Sum256([]byte(p.engine.Host() + "\x00" + name))
	return flock.New(filepath.Join(p.opts.LockDir, fmt.Sprintf("image-%x.lock", id[:8])), flock.SetPermissions(0o600))
}

// lock makes the caller the only one to make the image of a name, waiting as
// long as ctx allows. Who holds the lock of an image may take that of what it
// stands on, never the other way round.
func (p *Provider) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(p.opts.LockDir, 0o700); err != nil {
		return nil, fmt.Errorf("lock the making of images: %w", err)
	}
	held := p.lockFile(name)
	got, err := held.TryLock()
	if err == nil && !got {
		p.opts.Progress("another agentbox makes " + name + "; waiting for it")
		_, err = held.TryLockContext(ctx, lockRetry)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for another agentbox that makes %s (lock %s): %w", name, held.Path(), err)
	}
	return func() { held.Unlock() }, nil //nolint:errcheck // closing the file frees it in any case
}
