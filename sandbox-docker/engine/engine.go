// Package engine drives one Docker engine through its API: images, networks,
// containers and commands in them. It is a thin, typed layer over moby's
// client that names errors which callers branch on and speaks core's types.
//
// Invariants:
//   - It knows no path of the host: what goes in and comes out are streams,
//     and it reads neither environment nor files. So it drives a remote engine
//     as well as a local one.
//   - Every error says what was asked of which engine. One that means "the
//     engine can't be reached" is a provider.UnavailableError, which says what to do.
//   - Output of a command in a container is copied, never held.
package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/madarco/agentbox/core/provider"
)

// Errors that callers branch on, besides those of package provider.
var (
	// ErrNotFound: the engine has no such image, container or network.
	ErrNotFound = errors.New("not found")
	// ErrConflict: a name is in use, or the object is in another state.
	ErrConflict = errors.New("conflict")
	// ErrSubnetTaken: the addresses of a new network are in use.
	ErrSubnetTaken = errors.New("subnet is taken")
)

// Endpoint is where an engine listens.
type Endpoint struct {
	// Host is a URL as in DOCKER_HOST: unix:///path, npipe:////./pipe/name or
	// tcp://host:port. Empty means the platform's default.
	Host string
	// TLS is used with tcp, nil for none.
	TLS *tls.Config
}

// Engine is a connection to one engine, safe for concurrent use. It connects
// when it is first needed and agrees on an API version then.
type Engine struct {
	api  *client.Client
	host string
}

// Connect prepares a connection; it fails only on an Endpoint that makes no
// sense. Use Ping to find out whether the engine answers.
func Connect(at Endpoint) (*Engine, error) {
	if at.Host == "" {
		at.Host = client.DefaultDockerHost
	}
	var opts []client.Opt
	if at.TLS != nil {
		opts = append(opts, client.WithHTTPClient(&http.Client{
			Transport:     &http.Transport{TLSClientConfig: at.TLS},
			CheckRedirect: client.CheckRedirect,
		}))
	}
	api, err := client.New(append(opts, client.WithHost(at.Host))...)
	if err != nil {
		return nil, fmt.Errorf("use the docker engine at %s: %w", at.Host, err)
	}
	return &Engine{api: api, host: at.Host}, nil
}

// Close drops idle connections.
func (e *Engine) Close() error { return e.api.Close() }

// Host is the address of the engine.
func (e *Engine) Host() string { return e.host }

// Ping asks whether the engine answers. The error wraps provider.ErrUnavailable.
func (e *Engine) Ping(ctx context.Context) error {
	_, err := e.api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	return e.failed(ctx, "ask for a sign of life", err)
}

// Info is what an engine can do and enforce.
type Info struct {
	Version string
	// Arch is the architecture of its containers as Go spells it.
	Arch string
	// MemTotal is the engine machine's memory in bytes, CPUCount its processors.
	MemTotal int64
	CPUCount int
	// Memory, PIDs, CPUs and Seccomp tell which bounds it enforces.
	Memory, PIDs, CPUs, Seccomp bool
}

// Info asks the engine about itself.
func (e *Engine) Info(ctx context.Context) (Info, error) {
	got, err := e.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return Info{}, e.failed(ctx, "ask about the engine", err)
	}
	seccomp := slices.ContainsFunc(got.Info.SecurityOptions, func(option string) bool {
		name, _, _ := strings.Cut(option, ",") // "name=seccomp,profile=default"
		return name == "name=seccomp" || name == "seccomp"
	})
	return Info{
		Version:  got.Info.ServerVersion,
		Arch:     goArch(got.Info.Architecture),
		MemTotal: got.Info.MemTotal,
		CPUCount: got.Info.NCPU,
		Memory:   got.Info.MemoryLimit,
		PIDs:     got.Info.PidsLimit,
		CPUs:     got.Info.CPUCfsQuota,
		Seccomp:  seccomp,
	}, nil
}

// goArch translates uname's machine names.
func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return machine
}

// failed names the operation and sorts the error; nil stays nil. What fails
// once ctx has ended failed for ctx's cause, which HTTP calls return in the place
// of context.Canceled and moby takes for an engine that is not there.
func (e *Engine) failed(ctx context.Context, operation string, err error) error {
	if err == nil {
		return nil
	}
	var kind error
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", operation, errors.Join(context.Cause(ctx), ctx.Err()))
	case unreachable(err):
		return fmt.Errorf("%s: %w", operation, &provider.UnavailableError{What: "docker engine at " + e.host, Reason: reason(err), Next: hint(err)})
	case errdefs.IsNotFound(err), strings.Contains(err.Error(), "unrecognized image ID"): // what the engine says of one that goes meanwhile
		kind = ErrNotFound
	case strings.Contains(strings.ToLower(err.Error()), "no space left on device"): // strerror(ENOSPC), npm's too
		kind = provider.ErrNoSpace
	case strings.Contains(err.Error(), "overlap"):
		kind = ErrSubnetTaken
	case errdefs.IsConflict(err):
		kind = ErrConflict
	}
	if kind == nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	return fmt.Errorf("%s: %w: %w", operation, kind, err)
}

func unreachable(err error) bool {
	var op *net.OpError
	return client.IsErrConnectionFailed(err) || errors.As(err, &op) && op.Op == "dial"
}

// reason is what the system said; moby's words around it name the address again.
func reason(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return nil
}

func hint(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "permission denied"):
		return "add yourself to its group with `sudo usermod -aG docker $USER` and log in again"
	case runtime.GOOS == "linux":
		return "start it with `sudo systemctl start docker`, or install the package docker.io"
	}
	return "start Docker Desktop or OrbStack"
}
