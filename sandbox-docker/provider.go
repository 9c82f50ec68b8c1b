package sandboxdocker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/images"
	"github.com/madarco/agentbox/sandbox-docker/engine"
)

// DefaultRegistry is where ready-made box images are published.
const DefaultRegistry = "ghcr.io/madarco/agentbox/box"

// Repository is the name of box images in the local engine; the tag is the flavour.
const Repository = "agentbox/box"

// BoxUser is the user that everything in a box runs as, uid 1000, with sudo.
const BoxUser = "vscode"

// Labels of a box's container and network.
const (
	labelManaged = "agentbox.managed"
	labelID      = "agentbox.id"
	labelName    = "agentbox.name"
	labelProject = "agentbox.project"
	labelProfile = "agentbox.profile"      // the seccomp profile's name
	labelHash    = "agentbox.profile-hash" // and the hash of its text
	labelAttempt = "agentbox.attempt"      // one create, so that it undoes only its own
	labelBuild   = "agentbox.build"        // the image that a network is made to build
)

// Options configure a Provider.
type Options struct {
	// BaseImage overrides images.DefaultBase.
	BaseImage string
	// Ctl finds agentbox-ctl for an architecture; default images.Ctl.
	Ctl func(arch string) ([]byte, error)
	// Engine makes the boxes. Required.
	Engine *engine.Engine
	// Image of boxes that ask for none, a flavour or a reference; default is
	// the flavour images.Full.
	Image string
	// LockDir is a folder for the locks by which one process at a time makes an
	// image; it is created. Default is in the user's cache folder, whatever
	// state folder the process works with.
	LockDir string
	// NetworkPool is cut into one /28 per box; default: the first of a few /18
	// that no route of the host overlaps.
	NetworkPool netip.Prefix
	// Progress gets each line of an image's build or pull; default none.
	Progress func(line string)
	// Registry holds ready-made images; empty means never to pull.
	Registry string
	// Repository names the local images; default Repository.
	Repository string
	// StateDir is the folder that boxes' relay sockets lie below; trying a box
	// finds out whether the engine sees it. Default is that for temporary files.
	StateDir string
	// Version of agentbox, as in "v1.2.3".
	Version string
}

func (o Options) withDefaults() (Options, error) {
	if o.LockDir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return o, fmt.Errorf("find your cache folder: %w", err)
		}
		o.LockDir = filepath.Join(cache, "agentbox")
	}
	if o.Ctl == nil {
		o.Ctl = images.Ctl
	}
	if o.Image == "" {
		o.Image = string(images.Full)
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Repository == "" {
		o.Repository = Repository
	}
	return o, nil
}

// Provider makes boxes as containers.
type Provider struct {
	engine *engine.Engine
	opts   Options
}

var (
	_ provider.Provider = (*Provider)(nil)
	_ provider.Pauser   = (*Provider)(nil)
	_ provider.Preparer = (*Provider)(nil)
)

// New prepares a provider. It asks nothing of the engine.
func New(opts Options) (*Provider, error) {
	if opts.Engine == nil {
		return nil, errors.New("prepare the docker provider: it needs an engine")
	}
	if pool := opts.NetworkPool; pool.IsValid() && (!pool.Addr().Is4() || pool.Bits() > boxBits) {
		return nil, fmt.Errorf("box.networkPool %s: %w: it must be an IPv4 range of at least a /%d", pool, core.ErrInvalid, boxBits)
	}
	opts, err := opts.withDefaults()
	return &Provider{engine: opts.Engine, opts: opts}, err
}

// Name is "docker".
func (*Provider) Name() string { return "docker" }

// Capabilities asks the engine what it enforces.
func (p *Provider) Capabilities(ctx context.Context) (provider.Capabilities, error) {
	info, err := p.engine.Info(ctx)
	if err != nil {
		return provider.Capabilities{}, err
	}
	return provider.Capabilities{
		Pause:         true,
		SharedObjects: true,
		Memory:        info.Memory,
		PIDs:          info.PIDs,
		CPUs:          info.CPUs,
		Seccomp:       info.Seccomp,
	}, nil
}

func containerName(name core.BoxName) string { return "agentbox-" + string(name) }

func networkName(id string) string { return "agentbox-" + id }

func label(key, value string) string { return key + "=" + value }

// find looks the box's container up. A container that has the name but is
// another box's, or nobody's, is not it.
func (p *Provider) find(ctx context.Context, box core.Box) (engine.Container, error) {
	name := containerName(box.Name)
	if box.Docker != nil && box.Docker.Container != "" {
		name = box.Docker.Container
	}
	c, err := p.engine.Container(ctx, name)
	if errors.Is(err, engine.ErrNotFound) || err == nil && c.Labels[labelID] != box.ID {
		return c, fmt.Errorf("box %s: container %s: %w; `agentbox destroy %s` forgets it", box.Name, name, provider.ErrNotFound, box.Name)
	}
	return c, err
}
