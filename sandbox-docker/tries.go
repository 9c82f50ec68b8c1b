package sandboxdocker

import (
	"context"
	"fmt"
	"strings"

	"github.com/madarco/agentbox/core/provider"
)

var _ provider.Examiner = (*Provider)(nil)

// Tries implements provider.Examiner.
func (p *Provider) Tries() []provider.Try {
	const engine = "docker engine"
	return []provider.Try{
		{Name: engine, Run: p.tryEngine},
		{Name: "bounds", Run: p.tryBounds, Needs: engine},
		{Name: "box image", Run: p.tryImage, Needs: engine, Soft: true},
		{Name: "box networks", Run: p.tryNetwork, Needs: engine},
		{Name: "sealed box", Run: p.tryBox, Needs: engine},
	}
}

func (p *Provider) tryEngine(ctx context.Context) (string, error) {
	info, err := p.engine.Info(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s at %s, %d CPUs, %d MiB", info.Version, p.engine.Host(), info.CPUCount, info.MemTotal>>20), nil
}

func (p *Provider) tryBounds(ctx context.Context) (string, error) {
	info, err := p.engine.Info(ctx)
	if err != nil {
		return "", err
	}
	var missing []string
	for _, b := range []struct {
		name string
		ok   bool
	}{{"memory", info.Memory}, {"processes", info.PIDs}, {"CPUs", info.CPUs}, {"system calls (seccomp)", info.Seccomp}} {
		if !b.ok {
			missing = append(missing, b.name)
		}
	}
	if len(missing) > 0 {
		return "", fmt.Errorf("the engine does not bound %s: %w; enable the kernel's cgroup controllers and seccomp", strings.Join(missing, ", "), provider.ErrUnsupported)
	}
	return "memory, processes, CPUs and system calls", nil
}

func (p *Provider) tryImage(ctx context.Context) (string, error) {
	info, err := p.engine.Info(ctx)
	if err != nil {
		return "", err
	}
	flavour, ours := p.named("")
	if !ours {
		image, err := p.givenImage(ctx, info.Arch, p.opts.Image)
		return image.Ref, err
	}
	status, err := p.status(ctx, info.Arch, flavour)
	switch {
	case err != nil:
		return "", err
	case status.State == provider.ImageStale:
		return "", fmt.Errorf("%w: %s is of another version; `agentbox prepare` or the next create makes this version's", provider.ErrNoImage, status.Ref)
	case status.State == provider.ImageMissing:
		return "", fmt.Errorf("%w: `agentbox prepare` or the next create makes %s, which takes some minutes", provider.ErrNoImage, status.Ref)
	}
	return status.Ref, nil
}

// tryNetwork makes a box's network and removes it.
func (p *Provider) tryNetwork(ctx context.Context) (found string, err error) {
	const name = "agentbox-doctor"
	labels := map[string]string{labelAttempt: name}
	settled, stop := settling(ctx)
	defer stop()
	if err := p.createNetwork(settled, name, name, labels); err != nil {
		return "", err
	}
	networks, err := p.engine.Networks(settled, label(labelAttempt, name))
	if err == nil && len(networks) > 0 && len(networks[0].Subnets) > 0 {
		found = "a box would get " + networks[0].Subnets[0].String()
	}
	if gone := p.remove(settled, label(labelAttempt, name)); gone != nil {
		return "", gone
	}
	return found, err
}
