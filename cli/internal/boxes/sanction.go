package boxes

import (
	"context"
	"fmt"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/sandbox-core/state"
)

// MayPutOn refuses a branch that is another box's own: each box has one that
// nothing else moves.
func (k *Keeper) MayPutOn(box core.Box, branch core.BranchName) error {
	st, err := k.Store.Read()
	if err != nil {
		return err
	}
	return mayPutOn(st, box, branch)
}

func mayPutOn(st *state.State, box core.Box, branch core.BranchName) error {
	root, _ := box.Root()
	for _, other := range st.Boxes {
		for _, repo := range other.Repos {
			if other.ID != box.ID && repo.Key == root.Key && repo.Branch == branch {
				return fail.New(fail.Refused, "choose another branch, or agentbox shell "+string(other.Name), "branch %s is the own one of box %s", branch, other.Name)
			}
		}
	}
	return nil
}

// Note writes down that the box is on a branch that it gets no right to.
func (k *Keeper) Note(ctx context.Context, box core.Box, branch core.BranchName) error {
	_, err := k.record(ctx, box, branch, func(r *core.Repo) { r.On = branch })
	return err
}

// record changes what the record says of the project's own repository, and
// returns that.
func (k *Keeper) record(ctx context.Context, box core.Box, branch core.BranchName, change func(*core.Repo)) (repo core.Repo, err error) {
	err = k.Store.Update(ctx, func(st *state.State) error {
		now, ok := st.Box(box.ID)
		if !ok {
			return fmt.Errorf("box %s was destroyed meanwhile", box.Name)
		}
		if err := mayPutOn(st, now, branch); err != nil {
			return err
		}
		for i := range now.Repos {
			if r := &now.Repos[i]; r.Kind == "root" {
				change(r)
				repo = *r
			}
		}
		st.Put(now)
		return nil
	})
	return repo, err
}

// PutOn books that the user has put the box on a branch: in its record, with
// the relay, which then lets pushes to it go and lands it as far as it moves
// forward, and with the box's daemon, which hands it in. The box's own branch
// takes the booking back.
func (k *Keeper) PutOn(ctx context.Context, box core.Box, branch core.BranchName) error {
	repo, err := k.record(ctx, box, branch, func(r *core.Repo) {
		r.On = ""
		if r.Sanctioned = branch; branch == r.Branch {
			r.Sanctioned = ""
		}
	})
	if err != nil {
		return err
	}
	relay, err := k.Relay(ctx)
	if err == nil {
		err = relay.Sanction(ctx, wire.SanctionBranch{BoxID: box.ID, RepoKey: repo.Key, Branch: repo.Sanctioned})
	}
	if err != nil {
		return fail.New(fail.Relay, "agentbox start "+string(box.Name), "box %s is on %s, but the relay does not know it, so its pushes ask: %w", box.Name, branch, err)
	}
	p, err := k.Provider(box.Provider)
	if err != nil {
		return err
	}
	if _, err := ask(ctx, p, box, ctl, "sanction", "--repo", repo.Key, string(branch)); err != nil {
		return fail.New(fail.Failed, "agentbox land "+string(box.Name), "box %s is on %s, but does not land it by itself: %w", box.Name, branch, err)
	}
	return nil
}
