package boxes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/sandbox-core/state"
)

// world is an engine, a relay and a project in memory, with a fault to inject.
type world struct {
	factory.Relay
	provider.Provider

	home core.Home
	mu   sync.Mutex
	// at is called at each step, by its name; an error makes the step fail.
	at         func(step string) error
	registered map[string]string // token by box id
	made       map[string]core.Box
	stream     map[string]string
	containers map[core.BoxName]bool // names that are taken at the provider
	branches   map[core.BranchName]bool
}

func newWorld(t *testing.T) *world {
	return &world{
		home: core.Home(t.TempDir()), at: func(string) error { return nil },
		registered: map[string]string{}, made: map[string]core.Box{}, stream: map[string]string{},
		containers: map[core.BoxName]bool{}, branches: map[core.BranchName]bool{},
	}
}

func (w *world) creator() *Creator {
	return &Creator{
		Home: w.home, Store: state.Open(w.home), Provider: w, Now: time.Now, Remains: func(string) {},
		Relay: func(context.Context) (factory.Relay, error) { return w, w.at("relay") },
		Step:  func(string) func(error) { return func(error) {} },
	}
}

func (w *world) Name() string { return "docker" }

func (w *world) Capabilities(context.Context) (provider.Capabilities, error) {
	return provider.Capabilities{}, w.at("engine")
}

func (w *world) Create(ctx context.Context, req provider.CreateRequest) (core.Box, error) {
	w.mu.Lock()
	taken := w.containers[req.Box.Name]
	w.mu.Unlock()
	if taken {
		return core.Box{}, fmt.Errorf("container: %w", provider.ErrNameTaken)
	}
	if err := w.at("create"); err != nil {
		return core.Box{}, err
	}
	var b strings.Builder
	if err := req.Setup(ctx, &b); err != nil {
		return core.Box{}, fmt.Errorf("fill the box: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	box := req.Box
	box.Docker = &core.DockerBox{Container: "agentbox-" + string(box.Name)}
	w.made[box.ID], w.stream[box.ID] = box, b.String()
	return box, nil
}

func (w *world) Destroy(ctx context.Context, box core.Box) error {
	if err := w.at("destroy"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.made, box.ID)
	return ctx.Err()
}

func (w *world) Register(_ context.Context, r wire.RegisterBox) error {
	if err := w.at("register"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.registered[r.Box.ID] = r.Token
	return os.MkdirAll(w.home.RelayDir(r.Box.ID), 0o700)
}

func (w *world) Forget(ctx context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.registered, id)
	return ctx.Err()
}

func (w *world) Root() string    { return "/p" }
func (w *world) Folder() string  { return "app" }
func (w *world) Notes() []string { return []string{"left out: \".env\""} }

func (w *world) BranchTaken(_ context.Context, b core.BranchName) (bool, error) {
	return w.branches[b], w.at("branch")
}

func (w *world) Repos(b core.BranchName) []core.Repo {
	return []core.Repo{{Key: "0123456789abcdef", Kind: "root", Branch: b}}
}

func (w *world) Seeds(context.Context, Step) (map[string]string, error) {
	return map[string]string{"0123456789abcdef": "/seed"}, w.at("seeds")
}

func (w *world) Prepare(context.Context, core.Box, Step) error { return w.at("prepare") }

func (w *world) Setup(box core.Box, token string) provider.Setup {
	return func(_ context.Context, out io.Writer) error {
		if err := w.at("setup"); err != nil {
			return err
		}
		_, err := io.WriteString(out, box.ID+" "+token)
		return err
	}
}

// left says what exists of any box.
func (w *world) left(t *testing.T) string {
	t.Helper()
	st, err := state.Open(w.home).Read()
	if err != nil {
		t.Fatal(err)
	}
	dirs, _ := os.ReadDir(w.home.Box("")) // it need not exist
	if len(st.Boxes)+len(w.registered)+len(w.made)+len(dirs) == 0 {
		return ""
	}
	return fmt.Sprintf("records %v, registered %v, made %v, folders %v", st.Boxes, w.registered, w.made, dirs)
}

func TestCreate(t *testing.T) {
	w := newWorld(t)
	box, err := w.creator().Create(t.Context(), w, Request{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := state.Open(w.home).Read()
	if err != nil {
		t.Fatal(err)
	}
	got := st.Boxes[0]
	if got.Creating || got.Name != "app" || got.Docker.Container != "agentbox-app" || got.Repos[0].Branch != "agentbox/app" || got.ID != box.ID {
		t.Errorf("record %+v", got)
	}
	token := w.registered[box.ID]
	if len(token) != 64 || w.stream[box.ID] != box.ID+" "+token {
		t.Errorf("the box got %q, the relay %q", w.stream[box.ID], token)
	}
	if data, _ := os.ReadFile(w.home.State()); strings.Contains(string(data), token) {
		t.Error("the token is in the state file")
	}
}

// TestTheUsersWordOnQuestionsGoesIntoTheRecord: what is set when the box is made.
func TestTheUsersWordOnQuestionsGoesIntoTheRecord(t *testing.T) {
	for _, set := range []struct{ all, safe bool }{{false, true}, {true, true}, {false, false}} {
		w := newWorld(t)
		c := w.creator()
		c.AutoApprove, c.AutoApproveSafe = set.all, set.safe
		box, err := c.Create(t.Context(), w, Request{})
		if err != nil {
			t.Fatal(err)
		}
		if box.AutoApproveHostActions != set.all || (box.AutoApproveSafeHostActions == nil) != set.safe {
			t.Errorf("set %+v; the record has %v, %v", set, box.AutoApproveHostActions, box.AutoApproveSafeHostActions)
		}
	}
}

func TestACreateThatFailsLeavesNothing(t *testing.T) {
	sorry := errors.New("sorry")
	for _, step := range []string{"engine", "relay", "seeds", "branch", "register", "prepare", "create", "setup"} {
		t.Run(step, func(t *testing.T) {
			w := newWorld(t)
			w.at = func(s string) error {
				if s == step {
					return sorry
				}
				return nil
			}
			if _, err := w.creator().Create(t.Context(), w, Request{}); !errors.Is(err, sorry) {
				t.Errorf("got %v", err)
			}
			if left := w.left(t); left != "" {
				t.Error(left)
			}
		})
	}
}

func TestAnInterruptAtAnyStepLeavesNothing(t *testing.T) {
	for _, step := range []string{"engine", "relay", "seeds", "branch", "register", "prepare", "create", "setup"} {
		t.Run(step, func(t *testing.T) {
			w := newWorld(t)
			ctx, interrupt := context.WithCancelCause(t.Context())
			w.at = func(s string) error {
				if s == step {
					interrupt(fail.ErrInterrupted)
				}
				return nil
			}
			_, err := w.creator().Create(ctx, w, Request{})
			if code := fail.Of(err).Code; err == nil || code != fail.Interrupted {
				t.Errorf("got %v, code %d", err, code)
			}
			if left := w.left(t); left != "" {
				t.Error(left)
			}
		})
	}
}

func TestWhatCannotBeRemovedKeepsItsRecord(t *testing.T) {
	w := newWorld(t)
	ctx, interrupt := context.WithCancelCause(t.Context())
	w.at = func(s string) error {
		switch s {
		case "setup": // the box is made, its record can't be written any more
			interrupt(fail.ErrInterrupted)
		case "destroy":
			return errors.New("the engine hangs")
		}
		return nil
	}
	_, err := w.creator().Create(ctx, w, Request{})
	e := fail.Of(err)
	if !strings.Contains(err.Error(), "the engine hangs") || e.Next != "agentbox destroy app" {
		t.Errorf("got %v, next %q", err, e.Next)
	}
	st, _ := state.Open(w.home).Read()
	if len(st.Boxes) != 1 || !st.Boxes[0].Creating {
		t.Errorf("records %v", st.Boxes)
	}
}

func TestANameThatTheProviderKnowsGoesToTheNext(t *testing.T) {
	w := newWorld(t)
	w.containers["app"], w.branches["agentbox/app-2"] = true, true
	box, err := w.creator().Create(t.Context(), w, Request{})
	if err != nil || box.Name != "app-3" {
		t.Fatalf("got %s, %v", box.Name, err)
	}
	if _, err := w.creator().Create(t.Context(), w, Request{Name: "app"}); !errors.Is(err, provider.ErrNameTaken) {
		t.Errorf("a chosen name: %v", err)
	}
	st, _ := state.Open(w.home).Read()
	if len(st.Boxes) != 1 {
		t.Errorf("records %v", st.Boxes)
	}
}

func TestCreatesAtOnceGetNamesAndIndexesOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	const n = 8
	made := make([]core.Box, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var err error
			if made[i], err = w.creator().Create(t.Context(), w, Request{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	st, err := state.Open(w.home).Read()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var indexes []int
	for _, box := range made {
		rec, _ := st.Box(box.ID)
		if rec.ProjectIndex != box.ProjectIndex || rec.Repos[0].Branch != box.Name.Branch() {
			t.Errorf("box %+v, record %+v", box, rec)
		}
		names, indexes = append(names, string(box.Name)), append(indexes, box.ProjectIndex)
	}
	slices.Sort(names)
	slices.Sort(indexes)
	if len(slices.Compact(names)) != n || !slices.Equal(indexes, []int{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("names %v, indexes %v", names, indexes)
	}
}
