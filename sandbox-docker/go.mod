module github.com/madarco/agentbox/sandbox-docker

go 1.26.0

require (
	github.com/containerd/errdefs v1.0.0
	github.com/gofrs/flock v0.13.2
	github.com/madarco/agentbox/core v0.1.0
	github.com/madarco/agentbox/images v0.1.0
	github.com/moby/moby/api v1.57.0
	github.com/moby/moby/client v0.6.3
	github.com/moby/profiles/seccomp v0.3.0
	github.com/opencontainers/runtime-spec v1.2.1
	golang.org/x/sys v0.50.0
)
