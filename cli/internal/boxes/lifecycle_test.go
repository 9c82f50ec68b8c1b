package boxes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/sandbox-core/state"
)

const (
	landedOID = core.ObjectID("1111111111111111111111111111111111111111")
	lostOID   = core.ObjectID("2222222222222222222222222222222222222222")
)

// ward is a world with one box in it, and the user's repository that has
// landedOID alone.
type ward struct {
	*world
	state core.State
	// refs is what the box says of its branches.
	refs  string
	calls []string
	land  func(ctx context.Context) error
	// dead tells that no daemon runs in the box; pulled is what the relay got.
	dead bool
	// hangs tells that no program in the box ever ends.
	hangs  bool
	pulled string
	asked  []wire.AskLanding
	key    string // of the repository that is pulled
	judged wire.Envelope
}

func newWard(t *testing.T) (*ward, *Keeper, core.Box) {
	w := &ward{world: newWorld(t), state: core.StateRunning, refs: string(landedOID) + " refs/heads/agentbox/app\n"}
	w.land = func(context.Context) error { return nil }
	box, err := w.creator().Create(t.Context(), w, Request{})
	if err != nil {
		t.Fatal(err)
	}
	return w, &Keeper{
		Home: w.home, Store: state.Open(w.home),
		Provider:     func(string) (provider.Provider, error) { return w, nil },
		Relay:        func(context.Context) (factory.Relay, error) { return w, w.at("relay") },
		Repositories: func() (Repositories, error) { return w, nil },
		Setup:        w.Setup,
	}, box
}

func (w *ward) State(context.Context, core.Box) (core.State, error) { return w.state, nil }

func (w *ward) Start(ctx context.Context, box core.Box, fill provider.Setup) error {
	var b strings.Builder
	if err := fill(ctx, &b); err != nil {
		return err
	}
	w.stream[box.ID], w.state = b.String(), core.StateRunning
	if w.hangs {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

func (w *ward) Stop(context.Context, core.Box) error {
	w.calls, w.state = append(w.calls, "stop"), core.StateStopped
	return nil
}

func (w *ward) Pause(context.Context, core.Box) error {
	w.calls, w.state = append(w.calls, "pause"), core.StatePaused
	return nil
}

func (w *ward) Unpause(context.Context, core.Box) error {
	w.calls, w.state = append(w.calls, "unpause"), core.StateRunning
	return nil
}

func (w *ward) Exec(ctx context.Context, _ core.Box, req provider.ExecRequest) (int, error) {
	call := strings.Join(req.Argv, " ")
	if w.hangs {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
	switch {
	case call == "agentbox-ctl land":
		w.calls = append(w.calls, "land")
		if w.dead {
			return 1, nil
		}
		io.WriteString(req.Stdout, "all landed\n") //nolint:errcheck // a buffer
		return 0, w.land(ctx)
	case strings.HasPrefix(call, "agentbox-ctl sanction "):
		w.calls = append(w.calls, "box "+call)
	case strings.HasPrefix(call, "agentbox-ctl land --stdout"):
		_, err := io.WriteString(req.Stdout, "a stream"+strings.TrimPrefix(call, "agentbox-ctl land --stdout"))
		return 0, err
	case strings.Contains(call, "for-each-ref"):
		w.calls = append(w.calls, "refs")
		io.WriteString(req.Stdout, w.refs) //nolint:errcheck // a buffer
	case strings.Contains(call, "rev-parse"):
		io.WriteString(req.Stdout, string(landedOID)+"\n") //nolint:errcheck // a buffer
	default:
		return 0, fmt.Errorf("unexpected command %q", call)
	}
	return 0, nil
}

func (w *ward) Land(_ context.Context, boxID string, ask bool, stream io.Reader) ([]wire.LandingResult, error) {
	data, err := io.ReadAll(stream)
	w.pulled = boxID + ": " + string(data)
	result := wire.LandingResult{Envelope: w.judged}
	if ask {
		result.RepoKey, result.Branch, result.Tip = w.key, "topic", lostOID
	}
	return []wire.LandingResult{result}, err
}

func (w *ward) AskLanding(_ context.Context, a wire.AskLanding) (wire.AskedLanding, error) {
	w.asked = append(w.asked, a)
	return wire.AskedLanding{}, nil
}

func (w *ward) Missing(_ context.Context, _ core.Repo, tips []core.ObjectID) ([]core.ObjectID, error) {
	return slices.DeleteFunc(tips, func(o core.ObjectID) bool { return o == landedOID }), nil
}

func record(t *testing.T, w *ward, id string) core.Box {
	t.Helper()
	st, err := state.Open(w.home).Read()
	if err != nil {
		t.Fatal(err)
	}
	box, _ := st.Box(id)
	return box
}

func TestStopHandsInFirstAndRemembersThatAllIsSafe(t *testing.T) {
	w, k, box := newWard(t)
	done, err := k.Stop(t.Context(), box)
	if err != nil || len(done.Left) != 0 || done.Already {
		t.Fatalf("%+v, %v", done, err)
	}
	if want := []string{"land", "refs", "stop"}; !slices.Equal(w.calls, want) {
		t.Errorf("calls %v, want %v", w.calls, want)
	}
	box = record(t, w, box.ID)
	if loss, err := k.Loss(t.Context(), box); !box.StoppedClean || err != nil || loss != nil {
		t.Errorf("record %+v, loss %v, %v", box, loss, err)
	}
	if err := k.Start(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	if record(t, w, box.ID).StoppedClean {
		t.Error("a box that runs counts as clean")
	}
}

func TestAPauseHandsInFirst(t *testing.T) {
	w, k, box := newWard(t)
	w.refs += string(lostOID) + " refs/stash\n"
	done, err := k.Pause(t.Context(), box)
	if want := []string{"land", "refs", "pause"}; err != nil || done.Already || len(done.Left) != 1 || !slices.Equal(w.calls, want) {
		t.Errorf("%+v, %v, calls %v, want %v", done, err, w.calls, want)
	}
	w.calls = nil
	if done, err := k.Pause(t.Context(), box); err != nil || !done.Already || len(w.calls) != 0 {
		t.Errorf("again: %+v, %v, calls %v", done, err, w.calls)
	}
	if done, err := k.Unpause(t.Context(), box); err != nil || done.Already || w.state != core.StateRunning {
		t.Errorf("unpause: %+v, %v", done, err)
	}
	if done, err := k.Unpause(t.Context(), box); err != nil || !done.Already {
		t.Errorf("again: %+v, %v", done, err)
	}
}

// TestAFrozenBoxGoesOnForAsLongAsItIsAsked: a paused box can hand in nothing.
func TestAFrozenBoxGoesOnForAsLongAsItIsAsked(t *testing.T) {
	w, k, box := newWard(t)
	w.state = core.StatePaused
	if loss, err := k.Loss(t.Context(), box); err != nil || loss != nil || !slices.Equal(w.calls, []string{"unpause", "land", "refs", "pause"}) {
		t.Errorf("loss %v, %v, calls %v", loss, err, w.calls)
	}
	w.calls = nil
	if _, err := k.Stop(t.Context(), box); err != nil || !slices.Equal(w.calls, []string{"unpause", "land", "refs", "stop"}) {
		t.Errorf("stop: %v, calls %v", err, w.calls)
	}
	w.calls = nil
	if done, err := k.Stop(t.Context(), box); err != nil || !done.Already || len(w.calls) != 0 {
		t.Errorf("again: %+v, %v, calls %v", done, err, w.calls)
	}
}

func TestAProviderThatFreezesNothing(t *testing.T) {
	w, k, box := newWard(t)
	k.Provider = func(string) (provider.Provider, error) { return struct{ provider.Provider }{w}, nil }
	if _, err := k.Pause(t.Context(), box); !errors.Is(err, provider.ErrUnsupported) || len(w.calls) != 0 {
		t.Errorf("%v, calls %v", err, w.calls)
	}
}

func TestAStartHandsOverANewToken(t *testing.T) {
	w, k, box := newWard(t)
	first := w.registered[box.ID]
	if err := k.Start(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	second := w.registered[box.ID]
	if first == second || w.stream[box.ID] != box.ID+" "+second {
		t.Errorf("tokens %q, %q; the box got %q", first, second, w.stream[box.ID])
	}
}

func TestWhatOnlyTheBoxHasIsALoss(t *testing.T) {
	w, k, box := newWard(t)
	w.refs += string(lostOID) + " refs/stash\n"
	done, err := k.Stop(t.Context(), box)
	if want := []Tip{{"refs/stash", lostOID}}; err != nil || !slices.Equal(done.Left, want) {
		t.Fatalf("%+v, %v", done, err)
	}
	if _, err := k.Loss(t.Context(), record(t, w, box.ID)); !errors.Is(err, ErrUnseen) {
		t.Errorf("a stopped box that was not clean: %v", err)
	}
	w.state = core.StateRunning
	if loss, err := k.Loss(t.Context(), box); err != nil || len(loss) != 1 {
		t.Errorf("running: %v, %v", loss, err)
	}
	w.state = core.StateMissing
	if loss, err := k.Loss(t.Context(), box); err != nil || loss != nil {
		t.Errorf("a box that is gone: %v, %v", loss, err)
	}
}

func TestABoxThatDoesNotAnswerCannotHoldUpAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, box := newWard(t)
		w.land = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		if done, err := k.Stop(t.Context(), box); err != nil || len(done.Left) != 0 || time.Since(began) != landTimeout {
			t.Errorf("%+v, %v after %s", done, err, time.Since(began))
		}
		_, err := k.Land(t.Context(), box, io.Discard)
		w.state = core.StateRunning
		if err == nil || !strings.Contains(err.Error(), "did not hand in its commits within 30s") {
			t.Errorf("land: %v", err)
		}
	})
}

// TestABoxThatNeverAnswersHoldsNothingUp: whatever git and agentbox-ctl in the
// box are by now.
func TestABoxThatNeverAnswersHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, box := newWard(t)
		w.hangs = true
		began := time.Now()
		if _, err := k.Loss(t.Context(), box); err == nil || !strings.Contains(err.Error(), "git in the box did not answer") {
			t.Errorf("loss: %v", err)
		}
		if _, err := k.Stop(t.Context(), box); err != nil || record(t, w, box.ID).StoppedClean {
			t.Errorf("stop: %v, %+v", err, record(t, w, box.ID))
		}
		if err := k.Start(t.Context(), box); err == nil || !strings.Contains(err.Error(), "was not up within") {
			t.Errorf("start: %v", err)
		}
		if took := time.Since(began); took > 5*time.Minute { // of the bubble's clock
			t.Errorf("it took %s", took)
		}
	})
}

func TestCommitsOfABoxWithADeadDaemonArePulled(t *testing.T) {
	w, k, box := newWard(t)
	var said strings.Builder
	if code, err := k.Land(t.Context(), box, &said); code != 0 || err != nil || said.String() != "all landed\n" || w.pulled != "" {
		t.Errorf("alive: %d, %v, %q, pulled %q", code, err, said.String(), w.pulled)
	}
	w.dead, w.judged = true, wire.Envelope{Stdout: "landed agentbox/app\n"}
	said.Reset()
	if code, err := k.Land(t.Context(), box, &said); code != 0 || err != nil || said.String() != "landed agentbox/app\n" || w.pulled != box.ID+": a stream" {
		t.Errorf("dead: %d, %v, %q, pulled %q", code, err, said.String(), w.pulled)
	}
	w.judged = wire.Envelope{ExitCode: 1, Stderr: "diverged agentbox/app\n"}
	said.Reset()
	if code, err := k.Land(t.Context(), box, &said); code != 1 || err != nil || said.String() != "diverged agentbox/app\n" {
		t.Errorf("diverged: %d, %v, %q", code, err, said.String())
	}
}

func TestABranchIsPulledAndThenAskedAbout(t *testing.T) {
	w, k, box := newWard(t)
	w.key = box.Repos[0].Key
	if _, err := k.AskToLand(t.Context(), box, "topic", "mine"); err != nil {
		t.Fatal(err)
	}
	want := wire.AskLanding{BoxID: box.ID, RepoKey: w.key, Branch: "topic", Tip: lostOID, As: "mine"}
	if w.pulled != box.ID+": a stream --branch topic" || len(w.asked) != 1 || w.asked[0] != want {
		t.Errorf("pulled %q, asked %+v", w.pulled, w.asked)
	}
	if _, err := k.AskToLand(t.Context(), box, "other", ""); err == nil || !strings.Contains(err.Error(), "no branch other") {
		t.Errorf("a branch that is not there: %v", err)
	}
	// What a stopped box handed in before can land all the same.
	w.state, w.pulled = core.StateStopped, ""
	if _, err := k.AskToLand(t.Context(), box, "", ""); err != nil || w.pulled != "" || w.asked[1].Tip != "" || w.asked[1].Branch != box.Repos[0].Branch {
		t.Errorf("%v, pulled %q, asked %+v", err, w.pulled, w.asked)
	}
}

func TestDestroyLeavesNothing(t *testing.T) {
	w, k, box := newWard(t)
	if err := k.Destroy(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	if left := w.left(t); left != "" {
		t.Error(left)
	}
}

func TestADeadRelayDoesNotHoldUpADestroy(t *testing.T) {
	w, k, box := newWard(t)
	w.at = func(step string) error {
		if step == "relay" {
			return errors.New("no relay")
		}
		return nil
	}
	err := k.Destroy(t.Context(), box)
	if err == nil || !strings.Contains(err.Error(), "the relay still knows it") {
		t.Errorf("got %v", err)
	}
	if len(w.made) != 0 || record(t, w, box.ID).ID != "" {
		t.Errorf("the box is still there: %v", w.made)
	}
}

func TestAnInterruptBeforeADestroyChangesNothing(t *testing.T) {
	w, k, box := newWard(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Destroy(ctx, box); !errors.Is(err, context.Canceled) || len(w.made) != 1 {
		t.Errorf("got %v, made %v", err, w.made)
	}
}

func FuzzTips(f *testing.F) {
	f.Add(string(landedOID) + " refs/heads/x\n" + string(lostOID) + " refs/stash\n")
	f.Add("--upload-pack=x refs/heads/x\n")
	f.Fuzz(func(t *testing.T, text string) {
		tips, err := parseTips(text)
		if err != nil {
			return
		}
		for _, tip := range tips {
			if _, err := core.ParseObjectID(string(tip.OID)); err != nil {
				t.Error(err)
			}
		}
	})
}
