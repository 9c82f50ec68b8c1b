package sandboxdocker

import (
	"context"
	"errors"
	"fmt"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

// Start starts or thaws the box and sets it up anew, because a stopped box has
// lost what lay in its memory. A start that fails stops the box again, unless
// it ran before.
func (p *Provider) Start(ctx context.Context, box core.Box, fill provider.Setup) (err error) {
	c, err := p.find(ctx, box)
	if err != nil {
		return err
	}
	if c.State != core.StateRunning {
		defer func() {
			if err != nil {
				err = p.stopAgain(ctx, c.ID, err)
			}
		}()
	}
	switch c.State {
	case core.StateRunning:
	case core.StatePaused:
		err = p.engine.UnpauseContainer(ctx, c.ID)
	default:
		err = p.engine.StartContainer(ctx, c.ID)
	}
	if err != nil {
		return fmt.Errorf("start box %s: %w", box.Name, err)
	}
	return p.setUp(ctx, c.ID, fill)
}

func (p *Provider) stopAgain(ctx context.Context, id string, cause error) error {
	settled, stop := settling(ctx)
	defer stop()
	if err := p.engine.StopContainer(settled, id); err != nil {
		return fmt.Errorf("%w; and the box could not be stopped again: %w", cause, err)
	}
	return cause
}

// Stop ends the box's processes, those that don't end within init's time by
// force. A stopped box stays as it is.
func (p *Provider) Stop(ctx context.Context, box core.Box) error {
	c, err := p.find(ctx, box)
	if err != nil {
		return err
	}
	if c.State == core.StatePaused { // frozen processes can't end in peace
		if err := p.engine.UnpauseContainer(ctx, c.ID); err != nil {
			return fmt.Errorf("stop box %s: %w", box.Name, err)
		}
	}
	return p.engine.StopContainer(ctx, c.ID)
}

// Pause freezes the box; a frozen one stays so. The error wraps ErrNotRunning
// when the box is stopped.
func (p *Provider) Pause(ctx context.Context, box core.Box) error {
	c, err := p.find(ctx, box)
	switch {
	case err != nil:
		return err
	case c.State == core.StatePaused:
		return nil
	case c.State != core.StateRunning:
		return fmt.Errorf("pause box %s: %w", box.Name, provider.ErrNotRunning)
	}
	return p.engine.PauseContainer(ctx, c.ID)
}

// Unpause thaws the box; a running one stays so. The error wraps ErrNotRunning
// when the box is stopped.
func (p *Provider) Unpause(ctx context.Context, box core.Box) error {
	c, err := p.find(ctx, box)
	switch {
	case err != nil:
		return err
	case c.State == core.StateRunning:
		return nil
	case c.State != core.StatePaused:
		return fmt.Errorf("unpause box %s: %w; start it with `agentbox start %s`", box.Name, provider.ErrNotRunning, box.Name)
	}
	return p.engine.UnpauseContainer(ctx, c.ID)
}

// Destroy removes the box's container and network.
func (p *Provider) Destroy(ctx context.Context, box core.Box) error {
	if !core.ValidBoxID(box.ID) {
		return fmt.Errorf("destroy box %s: %w: it has no id", box.Name, core.ErrInvalid)
	}
	if err := p.remove(ctx, label(labelID, box.ID)); err != nil {
		return fmt.Errorf("destroy box %s: %w", box.Name, err)
	}
	return nil
}

// State asks for one box. It is StateUnknown, with an error, when the engine
// can't be asked.
func (p *Provider) State(ctx context.Context, box core.Box) (core.State, error) {
	c, err := p.find(ctx, box)
	if errors.Is(err, provider.ErrNotFound) {
		return core.StateMissing, nil
	}
	if err != nil {
		return core.StateUnknown, err
	}
	return c.State, nil
}

// States asks for all boxes of this engine at once, by id.
func (p *Provider) States(ctx context.Context) (map[string]core.State, error) {
	containers, err := p.engine.Containers(ctx, label(labelManaged, "true"))
	if err != nil {
		return nil, err
	}
	states := map[string]core.State{}
	for _, c := range containers {
		if id := c.Labels[labelID]; core.ValidBoxID(id) {
			states[id] = c.State
		}
	}
	return states, nil
}

// Exec runs a command in a running box, as the box user and in "/" unless the
// request says otherwise; see engine.Exec for what cancelling means.
func (p *Provider) Exec(ctx context.Context, box core.Box, req provider.ExecRequest) (int, error) {
	c, err := p.find(ctx, box)
	if err != nil {
		return 0, err
	}
	if c.State != core.StateRunning {
		return 0, fmt.Errorf("run a command in box %s, which is %s: %w; start it with `agentbox start %s`", box.Name, c.State, provider.ErrNotRunning, box.Name)
	}
	if req.User == "" {
		req.User = BoxUser
	}
	if req.WorkDir == "" {
		req.WorkDir = "/"
	}
	return p.engine.Exec(ctx, c.ID, req)
}

// Logs copies what the box's first process and its daemon have printed.
func (p *Provider) Logs(ctx context.Context, box core.Box, req provider.LogRequest) error {
	c, err := p.find(ctx, box)
	if err != nil {
		return err
	}
	return p.engine.Logs(ctx, c.ID, req)
}
