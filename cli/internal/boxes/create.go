package boxes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/sandbox-core/state"
)

// Project is the user's project as a create needs it.
type Project interface {
	// Root is the project's root; Folder is what a box's name derives from.
	Root() string
	Folder() string
	// BranchTaken tells whether the user has a branch of this name, or one
	// that stands in its way.
	BranchTaken(ctx context.Context, branch core.BranchName) (bool, error)
	// Repos are the records of the project's repositories for a box with this
	// scratch branch.
	Repos(branch core.BranchName) []core.Repo
	// Seeds makes sure of the object folders that boxes read, by repository key.
	Seeds(ctx context.Context, step Step) (map[string]string, error)
	// Prepare takes from the user's repositories what the box gets.
	Prepare(ctx context.Context, box core.Box, step Step) error
	// Setup writes what Prepare took, and the token, into the box.
	Setup(box core.Box, token string) provider.Setup
	// Notes say, for people, what Prepare took and what it left out.
	Notes() []string
}

// Step shows a part of the work; see provider.CreateRequest.
type Step = func(name string) (done func(error))

// Creator makes boxes.
type Creator struct {
	Home     core.Home
	Store    *state.Store
	Provider provider.Provider
	Relay    func(ctx context.Context) (factory.Relay, error)
	Step     Step
	Now      func() time.Time
	// AutoApprove and AutoApproveSafe are what the user has set about questions of
	// the boxes that are made; see core.Box.
	AutoApprove, AutoApproveSafe bool
	// Remains is told what would be left if the process ended now.
	Remains func(what string)
}

// Request is what the user asked for.
type Request struct {
	// Name is empty where it derives from the project's folder.
	Name   core.BoxName
	Image  string
	Limits core.Limits
}

// maxNames bounds how often a create whose name turns out to be taken at the
// provider tries the next.
const maxNames = 20

// undoTimeout bounds the removal of what a failed create made.
const undoTimeout = time.Minute

// Create makes a box of the project. When it fails, or its context ends,
// everything that it made is removed.
func (c *Creator) Create(ctx context.Context, p Project, req Request) (core.Box, error) {
	relay, seeds, err := c.begin(ctx, p)
	if err != nil {
		return core.Box{}, err
	}
	taken := map[core.BoxName]bool{}
	for {
		a := attempt{Creator: c, relay: relay, project: p, seeds: seeds, req: req}
		err := a.reserve(ctx, taken)
		if err == nil {
			err = a.run(ctx)
		}
		if errors.Is(err, provider.ErrNameTaken) && req.Name == "" && len(taken) < maxNames {
			taken[a.box.Name] = true
			continue
		}
		return a.box, err
	}
}

// begin makes sure of the engine, the relay and the project's seed, side by
// side. Nothing of it belongs to one box.
func (c *Creator) begin(ctx context.Context, p Project) (relay factory.Relay, seeds map[string]string, err error) {
	if err := c.Home.Create(); err != nil {
		return nil, nil, err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error {
		_, err := c.Provider.Capabilities(ctx)
		return err
	})
	all.Go(func() (err error) {
		done := c.Step("relay")
		relay, err = c.Relay(ctx)
		done(err)
		return err
	})
	all.Go(func() (err error) {
		seeds, err = p.Seeds(ctx, c.Step)
		return err
	})
	err = all.Wait()
	return relay, seeds, err
}

// attempt is a create under one name.
type attempt struct {
	*Creator
	relay   factory.Relay
	project Project
	seeds   map[string]string
	req     Request
	box     core.Box
}

// reserve gives out name, id and index, and writes the record of a box that is
// being created. Names in taken are somebody's at the provider.
func (a *attempt) reserve(ctx context.Context, taken map[core.BoxName]bool) error {
	draft := state.Draft{
		Name: a.req.Name, Folder: a.project.Folder(), ProjectRoot: a.project.Root(),
		Provider: a.Provider.Name(), CreatedAt: a.Now().UTC(),
	}
	return a.Store.Update(ctx, func(s *state.State) error {
		box, err := s.Reserve(draft, func(name core.BoxName) (string, error) {
			if taken[name] {
				return "something else at " + a.Provider.Name(), nil
			}
			if has, err := a.project.BranchTaken(ctx, name.Branch()); err != nil || has {
				return "branch " + string(name.Branch()), err
			}
			return "", nil
		})
		if err != nil {
			return err
		}
		box.Repos, box.Limits = a.project.Repos(box.Name.Branch()), a.req.Limits
		box.AutoApproveHostActions = a.AutoApprove
		if !a.AutoApproveSafe {
			box.AutoApproveSafeHostActions = new(bool)
		}
		s.Put(box)
		a.box = box
		return nil
	})
}

// run makes the reserved box, or leaves nothing of it.
func (a *attempt) run(ctx context.Context) (err error) {
	a.Remains(fmt.Sprintf("box %s; remove it with: agentbox destroy %s", a.box.Name, a.box.Name))
	defer a.Remains("")
	made := false
	defer func() {
		if err != nil {
			err = errors.Join(err, a.undo(ctx, made))
		}
	}()
	token := core.NewToken()
	if err := a.relay.Register(ctx, wire.RegisterBox{Box: a.box, Token: token}); err != nil {
		return fmt.Errorf("register box %s with the relay: %w", a.box.Name, err)
	}
	box, err := a.make(ctx, token)
	if err != nil {
		return err
	}
	made = true
	box.Creating = false
	err = a.Store.Update(ctx, func(s *state.State) error {
		if !s.Put(box) {
			return fmt.Errorf("box %s was destroyed while it was created", box.Name)
		}
		return nil
	})
	a.box = box
	return err
}

// make lets the provider make the box while the user's repository is read.
func (a *attempt) make(ctx context.Context, token string) (core.Box, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var preparing sync.WaitGroup
	defer preparing.Wait()
	defer cancel(nil)
	prepared := make(chan struct{})
	preparing.Go(func() {
		defer close(prepared)
		if err := a.project.Prepare(ctx, a.box, a.Step); err != nil {
			cancel(err) // the provider's work is in vain
		}
	})
	box, err := a.Provider.Create(ctx, provider.CreateRequest{
		Box: a.box, Image: a.req.Image, RelayDir: a.Home.RelayDir(a.box.ID), Seeds: a.seeds, Step: a.Step,
		Setup: func(ctx context.Context, w io.Writer) error {
			select {
			case <-prepared:
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return a.project.Setup(a.box, token)(ctx, w)
		},
	})
	if err == nil {
		return box, nil
	}
	if ctx.Err() != nil {
		return core.Box{}, context.Cause(ctx) // what ended it says more than that it ended
	}
	return core.Box{}, err
}

// undo removes what was made; the provider has removed its own part of a
// create that failed. What can't be removed keeps its record, so that destroy
// can try again.
func (a *attempt) undo(ctx context.Context, made bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	var err error
	if made {
		err = a.Provider.Destroy(ctx, a.box)
	}
	err = errors.Join(err, a.relay.Forget(ctx, a.box.ID))
	err = errors.Join(err, os.RemoveAll(a.Home.Box(a.box.ID)))
	if err != nil {
		return fail.New(fail.Failed, "agentbox destroy "+string(a.box.Name), "remove the half-made box %s: %w", a.box.Name, err)
	}
	return a.Store.Update(ctx, func(s *state.State) error {
		s.Remove(a.box.ID)
		return nil
	})
}
