package sandboxdocker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/sandbox-docker/engine"
)

// settleTime bounds work that has to be done although the caller has gone.
const settleTime = time.Minute

// settling is a context for such work.
func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), settleTime)
}

// Create makes a box: its network while the image is looked up, then the
// container, then what Setup puts into it.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (box core.Box, err error) {
	if _, err := core.ParseBoxName(string(req.Box.Name)); err != nil {
		return core.Box{}, err
	}
	if !core.ValidBoxID(req.Box.ID) || req.Setup == nil {
		return core.Box{}, fmt.Errorf("create a box: %w: it needs an id and a setup", core.ErrInvalid)
	}
	info, err := p.engine.Info(ctx)
	if err != nil {
		return core.Box{}, err
	}
	if !info.Seccomp {
		return core.Box{}, fmt.Errorf("create a box: the docker engine filters no system calls (seccomp): %w; boxes are not made without it", provider.ErrUnsupported)
	}
	limits, err := bounds(req.Box.Limits, info)
	if err != nil {
		return core.Box{}, err
	}
	a := attempt{provider: p, req: req, step: steps(req.Step), mark: rand.Text()}
	a.req.Box.Limits = limits
	defer func() {
		if err != nil {
			box, err = core.Box{}, a.undo(ctx, err)
		}
	}()
	return a.run(ctx, info.Arch)
}

// steps makes the report of progress optional.
func steps(report func(string) func(error)) func(string) func(error) {
	if report == nil {
		return func(string) func(error) { return func(error) {} }
	}
	return report
}

// attempt is one create.
type attempt struct {
	provider *Provider
	req      provider.CreateRequest
	step     func(string) func(error)
	mark     string // on everything that it makes
}

func (a *attempt) labels() map[string]string {
	return map[string]string{
		labelManaged: "true",
		labelID:      a.req.Box.ID,
		labelName:    string(a.req.Box.Name),
		labelProject: a.req.Box.ProjectRoot,
		labelAttempt: a.mark,
	}
}

func (a *attempt) run(ctx context.Context, arch string) (core.Box, error) {
	box, p := a.req.Box, a.provider
	network := make(chan error, 1)
	go func() { network <- a.network(ctx) }()
	id, err := a.container(ctx, arch, &box, network)
	if errors.Is(err, errReplaced) {
		id, err = a.container(ctx, arch, &box, nil)
	}
	if err != nil {
		return box, err
	}
	done := a.step("set up workspace")
	err = p.setUp(ctx, id, a.req.Setup)
	done(err)
	return box, err
}

// errReplaced: the image that was found is gone, for another agentbox has made
// one of its name since.
var errReplaced = errors.New("the image was replaced meanwhile")

// container starts a container of the image, once the network is there, and
// notes both in the record.
func (a *attempt) container(ctx context.Context, arch string, box *core.Box, network <-chan error) (id string, err error) {
	p := a.provider
	image, err := a.image(ctx, arch)
	if network != nil {
		err = errors.Join(err, <-network)
	}
	if err != nil {
		return "", err
	}
	profile := profileFor(image.Labels)
	box.Provider = p.Name()
	box.Docker = &core.DockerBox{
		Container: containerName(box.Name),
		Image:     image.Ref,
		ImageID:   image.ID,
		Network:   networkName(box.ID),
		Profile:   string(profile),
	}
	options, err := sealed(plan{
		box: *box, image: image.ID, profile: profile,
		relayDir: a.req.RelayDir, seeds: a.req.Seeds, labels: a.labels(),
	})
	if err != nil {
		return "", err
	}
	done := a.step("start container")
	// A call that is given up may still be carried out, after the clean-up.
	// So what makes something runs to its end, and cancelling counts then.
	settled, stop := settling(ctx)
	defer stop()
	id, err = p.engine.CreateContainer(settled, options)
	switch {
	case errors.Is(err, engine.ErrNotFound):
		err = fmt.Errorf("%w: %w", errReplaced, err)
	case errors.Is(err, engine.ErrConflict):
		err = fmt.Errorf("%w: %w; choose another name, or remove that container with `docker rm -f %s`", provider.ErrNameTaken, err, options.Name)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = p.engine.StartContainer(settled, id)
	}
	done(err)
	return id, err
}

func (a *attempt) network(ctx context.Context) error {
	done := a.step("make network")
	settled, stop := settling(ctx)
	defer stop()
	err := a.provider.createNetwork(settled, networkName(a.req.Box.ID), a.req.Box.ID, a.labels())
	done(err)
	return err
}

func (a *attempt) image(ctx context.Context, arch string) (Image, error) {
	done := a.step("find image")
	image, err := a.provider.image(ctx, arch, a.req.Image, making{step: a.req.Step})
	done(err)
	return image, err
}

// undo removes what the attempt made and returns its cause, with what could
// not be removed.
func (a *attempt) undo(ctx context.Context, cause error) error {
	settled, stop := settling(ctx)
	defer stop()
	if err := a.provider.remove(settled, label(labelAttempt, a.mark)); err != nil {
		return fmt.Errorf("%w; and what was made of the box is still there: %w", cause, err)
	}
	return cause
}

// remove removes every container and then every network that has the label.
// What is gone already counts as removed.
func (p *Provider) remove(ctx context.Context, marked string) error {
	containers, err := p.engine.Containers(ctx, marked)
	if err != nil {
		return err
	}
	for _, c := range containers {
		if err := p.engine.RemoveContainer(ctx, c.ID); err != nil && !errors.Is(err, engine.ErrNotFound) {
			return err
		}
	}
	networks, err := p.engine.Networks(ctx, marked)
	if err != nil {
		return err
	}
	for _, n := range networks {
		if err := p.engine.RemoveNetwork(ctx, n.ID); err != nil && !errors.Is(err, engine.ErrNotFound) {
			return err
		}
	}
	return nil
}
