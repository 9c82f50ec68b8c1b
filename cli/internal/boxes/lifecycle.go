package boxes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/sandbox-core/state"
)

// Keeper starts, stops and destroys boxes.
type Keeper struct {
	Home     core.Home
	Store    *state.Store
	Provider func(name string) (provider.Provider, error)
	Relay    func(ctx context.Context) (factory.Relay, error)
	// Repositories looks into the user's repositories.
	Repositories func() (Repositories, error)
	// Setup hands a box that was filled before a new token.
	Setup func(box core.Box, token string) provider.Setup
}

// Repositories are the user's own.
type Repositories interface {
	// Missing are those of the commits that no ref of the user's repository
	// reaches.
	Missing(ctx context.Context, repo core.Repo, tips []core.ObjectID) ([]core.ObjectID, error)
}

// Start brings a box up, or up to date if it runs: with a new token, which
// makes the old one worthless.
func (k *Keeper) Start(ctx context.Context, box core.Box) error {
	p, err := k.Provider(box.Provider)
	if err != nil {
		return err
	}
	relay, err := k.Relay(ctx)
	if err != nil {
		return err
	}
	box.StoppedClean = false
	if err := k.put(ctx, box); err != nil {
		return err
	}
	token := core.NewToken()
	if err := relay.Register(ctx, wire.RegisterBox{Box: box, Token: token}); err != nil {
		return fmt.Errorf("register box %s with the relay: %w", box.Name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("box %s was not up within %s; destroy it, or look into it with docker", box.Name, startTimeout))
	defer cancel()
	return p.Start(ctx, box, k.Setup(box, token))
}

// startTimeout bounds a start: it ends with a program in the box, which may
// never answer.
const startTimeout = 2 * time.Minute

// Outcome is what a verb did to a box.
type Outcome struct {
	// State is the box's now; Already tells that it was in it before.
	State   core.State
	Already bool
	// Left are the commits that are in the box alone.
	Left []Tip
}

// Stop gives the box the chance to hand in its commits, stops it, and tells
// what is only in the box.
func (k *Keeper) Stop(ctx context.Context, box core.Box) (Outcome, error) {
	done := Outcome{State: core.StateStopped}
	p, s, err := k.look(ctx, box)
	if err != nil {
		return done, err
	}
	clean := box.StoppedClean
	switch s {
	case core.StateStopped:
		done.Already = true
		return done, nil
	case core.StateRunning, core.StatePaused:
		if err = thaw(ctx, p, box, s); err == nil {
			done.Left, err = k.Unlanded(ctx, box)
		}
		clean = err == nil && len(done.Left) == 0
	}
	if err := p.Stop(ctx, box); err != nil {
		return done, err
	}
	box.StoppedClean = clean
	return done, k.put(ctx, box)
}

// Pause gives the box the chance to hand in its commits and freezes it; what
// runs in it goes on after Unpause. The error wraps provider.ErrUnsupported
// where the provider freezes nothing.
func (k *Keeper) Pause(ctx context.Context, box core.Box) (Outcome, error) {
	done := Outcome{State: core.StatePaused}
	p, s, err := k.look(ctx, box)
	if err != nil {
		return done, err
	}
	pauser, err := pauserOf(p)
	if err != nil {
		return done, err
	}
	switch s {
	case core.StatePaused:
		done.Already = true
		return done, nil
	case core.StateRunning:
		// What can't be handed in stays in the box, and Left says so if the
		// box answers at all.
		if done.Left, err = k.Unlanded(ctx, box); err != nil && ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
	}
	return done, pauser.Pause(ctx, box)
}

// Unpause lets a frozen box go on.
func (k *Keeper) Unpause(ctx context.Context, box core.Box) (Outcome, error) {
	done := Outcome{State: core.StateRunning}
	p, s, err := k.look(ctx, box)
	if err != nil {
		return done, err
	}
	pauser, err := pauserOf(p)
	if err != nil {
		return done, err
	}
	done.Already = s == core.StateRunning
	return done, pauser.Unpause(ctx, box)
}

// look finds the box's provider and asks it for the box's state.
func (k *Keeper) look(ctx context.Context, box core.Box) (provider.Provider, core.State, error) {
	p, err := k.Provider(box.Provider)
	if err != nil {
		return nil, core.StateUnknown, err
	}
	s, err := p.State(ctx, box)
	return p, s, err
}

func pauserOf(p provider.Provider) (provider.Pauser, error) {
	pauser, ok := p.(provider.Pauser)
	if !ok {
		return nil, fmt.Errorf("pause a box of %s: %w; stop it instead", p.Name(), provider.ErrUnsupported)
	}
	return pauser, nil
}

// thaw lets a frozen box go on, so that it can be asked something.
func thaw(ctx context.Context, p provider.Provider, box core.Box, s core.State) error {
	if s != core.StatePaused {
		return nil
	}
	pauser, err := pauserOf(p)
	if err != nil {
		return err
	}
	return pauser.Unpause(ctx, box)
}

func (k *Keeper) put(ctx context.Context, box core.Box) error {
	return k.Store.Update(ctx, func(s *state.State) error {
		if !s.Put(box) {
			return fmt.Errorf("box %s was destroyed meanwhile", box.Name)
		}
		return nil
	})
}

// ErrUnseen: it cannot be told whether the box holds commits that have not landed.
var ErrUnseen = errors.New("the box does not run, and it is not known whether all its commits have landed")

// Loss are the commits that a destroy would lose, handed in first if the box
// runs; a frozen one goes on for as long as it is asked. The error wraps
// ErrUnseen where the box cannot be asked.
func (k *Keeper) Loss(ctx context.Context, box core.Box) ([]Tip, error) {
	if box.Creating || len(box.Repos) == 0 {
		return nil, nil
	}
	p, s, err := k.look(ctx, box)
	if err != nil {
		return nil, err
	}
	switch {
	case s == core.StateRunning:
		return k.Unlanded(ctx, box)
	case s == core.StatePaused:
		if err := thaw(ctx, p, box, s); err != nil {
			return nil, err
		}
		loss, err := k.Unlanded(ctx, box)
		if again := p.(provider.Pauser).Pause(context.WithoutCancel(ctx), box); again != nil {
			err = errors.Join(err, again)
		}
		return loss, err
	case s == core.StateMissing, box.StoppedClean:
		return nil, nil
	default:
		return nil, fmt.Errorf("box %s: %w", box.Name, ErrUnseen)
	}
}

// destroyTimeout bounds the removal of a box once it has begun; an interrupt
// does not leave half of it.
const destroyTimeout = 2 * time.Minute

// Destroy removes the box and all that the host keeps for it but the branches
// that have landed. A relay that can't be reached does not hold it up; the
// error then says how to make it forget.
func (k *Keeper) Destroy(ctx context.Context, box core.Box) error {
	p, err := k.Provider(box.Provider)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTimeout)
	defer cancel()
	if err := p.Destroy(ctx, box); err != nil {
		return err
	}
	forgotten := k.forget(ctx, box)
	if err := os.RemoveAll(k.Home.Box(box.ID)); err != nil {
		return fmt.Errorf("remove what the host keeps of box %s: %w", box.Name, err)
	}
	err = k.Store.Update(ctx, func(s *state.State) error {
		s.Remove(box.ID)
		return nil
	})
	return errors.Join(err, forgotten)
}

func (k *Keeper) forget(ctx context.Context, box core.Box) error {
	relay, err := k.Relay(ctx)
	if err == nil {
		err = relay.Forget(ctx, box.ID)
	}
	if err != nil {
		return fail.New(fail.Relay, "agentbox relay forget "+box.ID, "box %s is gone, but the relay still knows it: %w", box.Name, err)
	}
	return nil
}
