package boxes

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

// prober answers State by the box's name.
type prober struct {
	provider.Provider
	answers map[core.BoxName]func(context.Context) (core.State, error)
}

func (p prober) State(ctx context.Context, box core.Box) (core.State, error) {
	return p.answers[box.Name](ctx)
}

func TestStatesNeverClaimMoreThanWasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) (core.State, error) { <-ctx.Done(); return "", ctx.Err() }
		p := prober{answers: map[core.BoxName]func(context.Context) (core.State, error){
			"down":  func(context.Context) (core.State, error) { return core.StateStopped, nil },
			"hang":  hang,
			"hang2": hang,
			"error": func(context.Context) (core.State, error) { return core.StateRunning, errors.New("lost") },
		}}
		of := func(name string) (provider.Provider, error) {
			if name == "gone" {
				return nil, provider.ErrUnavailable
			}
			return p, nil
		}
		began := time.Now()
		got := States(t.Context(), of, []core.Box{
			{Name: "down"}, {Name: "hang"}, {Name: "hang2"}, {Name: "error"}, {Name: "x", Provider: "gone"}, {Name: "new", Creating: true},
		})
		want := []core.State{core.StateStopped, core.StateUnknown, core.StateUnknown, core.StateUnknown, core.StateUnknown, core.StateCreating}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if took := time.Since(began); took != probeTimeout {
			t.Errorf("two boxes that hang took %s, want the limit of one", took)
		}
	})
}

// listing is a prober that is asked once for all its boxes.
type listing struct {
	prober
	known map[string]core.State
	err   error
}

func (l listing) States(context.Context) (map[string]core.State, error) { return l.known, l.err }

func TestAProviderThatListsIsAskedOnce(t *testing.T) {
	all := []core.Box{{ID: "b00000001"}, {ID: "b00000002"}, {ID: "b00000003", Creating: true}}
	l := listing{known: map[string]core.State{"b00000001": core.StatePaused}}
	of := func(string) (provider.Provider, error) { return l, nil }
	want := []core.State{core.StatePaused, core.StateMissing, core.StateCreating}
	if got := States(t.Context(), of, all); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	l.err = errors.New("lost")
	want = []core.State{core.StateUnknown, core.StateUnknown, core.StateCreating}
	if got := States(t.Context(), of, all); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
