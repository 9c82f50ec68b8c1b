package sandboxdocker

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/images"
	"github.com/madarco/agentbox/sandbox-docker/engine"
	"github.com/madarco/agentbox/sandbox-docker/seccomp"
)

const (
	ctlPath = "/usr/local/bin/agentbox-ctl"
	runDir  = "/run/agentbox"

	minMemory   = 2 << 30
	defaultPIDs = 2048
	shmSize     = 512 << 20
	stopSeconds = 25 // init's own time to end a box's services is shorter
	// oomScore makes the kernel take a box before the host's own programs.
	oomScore = 300
)

// profileFor picks the system call profile for an image: Chromium needs a
// wider one for its sandbox, and only images with it get that.
func profileFor(labels map[string]string) seccomp.Name {
	if labels[images.LabelChromium] == "true" {
		return seccomp.Browser
	}
	return seccomp.Default
}

// bounds fills in the defaults: half the engine machine's memory, but at least
// 2 GiB, and 2048 processes. What was asked for and the engine can't enforce
// is an error that wraps ErrUnsupported; a default that it can't enforce is
// left out, and Capabilities says so.
func bounds(want core.Limits, info engine.Info) (core.Limits, error) {
	if want.MemoryBytes < 0 || want.PIDs < 0 || want.CPUs < 0 {
		return want, fmt.Errorf("limits of the box: %w: none may be negative", core.ErrInvalid)
	}
	for _, b := range []struct {
		name     string
		asked    bool
		enforced bool
	}{
		{"memory", want.MemoryBytes > 0, info.Memory},
		{"number of processes", want.PIDs > 0, info.PIDs},
		{"CPUs", want.CPUs > 0, info.CPUs},
	} {
		if b.asked && !b.enforced {
			return want, fmt.Errorf("limit the box's %s: the docker engine has no control group for it: %w; leave the limit out, or use an engine that runs as root", b.name, provider.ErrUnsupported)
		}
	}
	got := want
	if info.Memory {
		got.MemoryBytes = cmp.Or(want.MemoryBytes, max(minMemory, info.MemTotal/2))
	}
	if info.PIDs {
		got.PIDs = cmp.Or(want.PIDs, defaultPIDs)
	}
	return got, nil
}

// plan is what the options of a box's container are made from.
type plan struct {
	box      core.Box // with effective limits
	image    string   // id
	profile  seccomp.Name
	relayDir string
	seeds    map[string]string
	labels   map[string]string // of this box and attempt
}

// sealed is the container that a plan asks for. It is the only place that
// decides what a box may do.
func sealed(p plan) (client.ContainerCreateOptions, error) {
	filter, err := seccomp.JSON(p.profile)
	if err != nil {
		return client.ContainerCreateOptions{}, err
	}
	mounts, err := binds(p.relayDir, p.seeds)
	if err != nil {
		return client.ContainerCreateOptions{}, err
	}
	labels := maps.Clone(p.labels)
	labels[labelProfile] = string(p.profile)
	labels[labelHash] = seccomp.Hash(filter)
	seconds := stopSeconds
	return client.ContainerCreateOptions{
		Name: containerName(p.box.Name),
		Config: &container.Config{
			Hostname:    string(p.box.Name),
			User:        BoxUser,
			Env:         environment(p.box),
			Image:       p.image,
			WorkingDir:  string(core.WorkspacePath),
			Entrypoint:  []string{ctlPath, "init"},
			Labels:      labels,
			StopTimeout: &seconds,
		},
		HostConfig: &container.HostConfig{
			CapDrop:       []string{"NET_RAW", "MKNOD"},
			SecurityOpt:   []string{"seccomp=" + filter},
			CgroupnsMode:  container.CgroupnsModePrivate,
			IpcMode:       container.IPCModePrivate,
			NetworkMode:   container.NetworkMode(networkName(p.box.ID)),
			RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
			OomScoreAdj:   oomScore,
			ShmSize:       shmSize,
			Mounts:        mounts,
			Tmpfs:         map[string]string{runDir: "rw,nosuid,nodev,noexec,size=64m,mode=0700,uid=1000,gid=1000"},
			LogConfig: container.LogConfig{
				Type:   "json-file",
				Config: map[string]string{"max-size": "10m", "max-file": "2"},
			},
			Resources: resources(p.box.Limits),
		},
	}, nil
}

func resources(limits core.Limits) container.Resources {
	r := container.Resources{
		Memory:     limits.MemoryBytes,
		MemorySwap: limits.MemoryBytes, // both together: no swap beyond it
		NanoCPUs:   int64(limits.CPUs * 1e9),
		Ulimits:    []*container.Ulimit{{Name: "core", Soft: 0, Hard: 0}},
	}
	if limits.PIDs > 0 {
		r.PidsLimit = &limits.PIDs
	}
	return r
}

// environment holds no secret and no path of the host: every process of the
// box, and whoever may inspect containers, reads it.
func environment(box core.Box) []string {
	env := []string{
		"AGENTBOX=1",
		"AGENTBOX_BOX_ID=" + box.ID,
		"AGENTBOX_BOX_NAME=" + string(box.Name),
	}
	if box.ProjectIndex > 0 {
		env = append(env, "AGENTBOX_PROJECT_INDEX="+strconv.Itoa(box.ProjectIndex))
	}
	return env
}

// binds are the host's folders in the box, every one read-only and without
// what is mounted below it.
func binds(relayDir string, seeds map[string]string) ([]mount.Mount, error) {
	var mounts []mount.Mount
	add := func(source, target string) error {
		if !filepath.IsAbs(source) || filepath.Clean(source) != source {
			return fmt.Errorf("mount %q into the box: %w: the path must be absolute and clean", source, core.ErrInvalid)
		}
		mounts = append(mounts, mount.Mount{
			Type:        mount.TypeBind,
			Source:      source,
			Target:      target,
			ReadOnly:    true,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: true},
		})
		return nil
	}
	if relayDir != "" {
		if err := add(relayDir, path.Join(runDir, "relay")); err != nil {
			return nil, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(seeds)) {
		if !core.ValidRepoKey(key) {
			return nil, fmt.Errorf("mount the seed of repository %q: %w: that is no repository key", key, core.ErrInvalid)
		}
		if err := add(seeds[key], path.Join(runDir, "seed", key, "objects")); err != nil {
			return nil, err
		}
	}
	return mounts, nil
}
