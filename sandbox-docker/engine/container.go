package engine

import (
	"context"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/madarco/agentbox/core"
)

// Container is a container as far as providers care.
type Container struct {
	ID      string
	Name    string
	ImageID string
	State   core.State
	Labels  map[string]string
}

// CreateContainer makes a container that does not run yet. The error wraps
// ErrConflict when the name is in use, ErrNotFound when the image is missing.
func (e *Engine) CreateContainer(ctx context.Context, options client.ContainerCreateOptions) (string, error) {
	got, err := e.api.ContainerCreate(ctx, options)
	if err != nil {
		return "", e.failed(ctx, "create container "+options.Name, err)
	}
	return got.ID, nil
}

// StartContainer starts a container; one that runs stays as it is.
func (e *Engine) StartContainer(ctx context.Context, id string) error {
	_, err := e.api.ContainerStart(ctx, id, client.ContainerStartOptions{})
	return e.failed(ctx, "start container "+id, err)
}

// StopContainer ends its processes, after its own stop timeout by force.
func (e *Engine) StopContainer(ctx context.Context, id string) error {
	_, err := e.api.ContainerStop(ctx, id, client.ContainerStopOptions{})
	return e.failed(ctx, "stop container "+id, err)
}

// PauseContainer freezes its processes.
func (e *Engine) PauseContainer(ctx context.Context, id string) error {
	_, err := e.api.ContainerPause(ctx, id, client.ContainerPauseOptions{})
	return e.failed(ctx, "pause container "+id, err)
}

// UnpauseContainer thaws them.
func (e *Engine) UnpauseContainer(ctx context.Context, id string) error {
	_, err := e.api.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
	return e.failed(ctx, "unpause container "+id, err)
}

// RemoveContainer ends and removes a container with its anonymous volumes.
// The error wraps ErrNotFound if it is gone.
func (e *Engine) RemoveContainer(ctx context.Context, id string) error {
	_, err := e.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	return e.failed(ctx, "remove container "+id, err)
}

// Container looks a container up by name or id. The error wraps ErrNotFound.
func (e *Engine) Container(ctx context.Context, name string) (Container, error) {
	got, err := e.api.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	if err != nil {
		return Container{}, e.failed(ctx, "look up container "+name, err)
	}
	c := Container{ID: got.Container.ID, Name: strings.TrimPrefix(got.Container.Name, "/"), ImageID: got.Container.Image}
	if got.Container.State != nil {
		c.State = state(got.Container.State.Status)
	}
	if got.Container.Config != nil {
		c.Labels = got.Container.Config.Labels
	}
	return c, nil
}

// Containers lists the containers, running or not, that have all the given
// labels ("key" or "key=value").
func (e *Engine) Containers(ctx context.Context, labels ...string) ([]Container, error) {
	got, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: labelled(labels)})
	if err != nil {
		return nil, e.failed(ctx, "list containers", err)
	}
	all := make([]Container, 0, len(got.Items))
	for _, item := range got.Items {
		c := Container{ID: item.ID, ImageID: item.ImageID, State: state(item.State), Labels: item.Labels}
		if len(item.Names) > 0 {
			c.Name = strings.TrimPrefix(item.Names[0], "/")
		}
		all = append(all, c)
	}
	return all, nil
}

// state translates the engine's word; what neither runs nor is frozen is stopped.
func state(s container.ContainerState) core.State {
	switch s {
	case container.StateRunning:
		return core.StateRunning
	case container.StatePaused:
		return core.StatePaused
	}
	return core.StateStopped
}
