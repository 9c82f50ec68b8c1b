package lifecycle

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/madarco/agentbox/cli/internal/boxes"
	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
)

const oid = core.ObjectID("2222222222222222222222222222222222222222")

type keeper struct {
	already bool
	broken  core.BoxName // nothing works on it

	mu    sync.Mutex
	calls []string
	tips  []boxes.Tip
	err   error // of Loss
	// silent tells that boxes never answer.
	silent bool
}

func (k *keeper) did(what string, box core.Box) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, what+" "+string(box.Name))
	if box.Name == k.broken {
		return provider.ErrUnavailable
	}
	return nil
}

func (k *keeper) Start(_ context.Context, box core.Box) error { return k.did("start", box) }

func (k *keeper) Stop(_ context.Context, box core.Box) (boxes.Outcome, error) {
	return boxes.Outcome{State: core.StateStopped, Already: k.already, Left: k.tips}, k.did("stop", box)
}

func (k *keeper) Pause(_ context.Context, box core.Box) (boxes.Outcome, error) {
	return boxes.Outcome{State: core.StatePaused, Already: k.already, Left: k.tips}, k.did("pause", box)
}

func (k *keeper) Unpause(_ context.Context, box core.Box) (boxes.Outcome, error) {
	return boxes.Outcome{State: core.StateRunning, Already: k.already}, k.did("unpause", box)
}

func (k *keeper) Loss(ctx context.Context, _ core.Box) ([]boxes.Tip, error) {
	if k.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return k.tips, k.err
}

func (k *keeper) Destroy(_ context.Context, box core.Box) error { return k.did("destroy", box) }

func chosen(names ...core.BoxName) func(factory.Selection) ([]core.Box, error) {
	return func(factory.Selection) ([]core.Box, error) {
		var all []core.Box
		for _, name := range names {
			all = append(all, core.Box{Name: name, ProjectRoot: "/p", Repos: []core.Repo{{Kind: "root", Branch: name.Branch(), WorkTree: "/p"}}})
		}
		return all, nil
	}
}

func options(s *streams.Streams, k *keeper, v Verb) *Options {
	return &Options{Streams: s, Verb: v, Boxes: chosen("app"), Keeper: func() (Keeper, error) { return k, nil }}
}

func destroyOptions(s *streams.Streams, k *keeper) *DestroyOptions {
	return &DestroyOptions{Streams: s, Boxes: chosen("app"), Keeper: func() (Keeper, error) { return k, nil }}
}

func TestTheVerbsSayWhatTheyDid(t *testing.T) {
	for _, tc := range []struct {
		verb        Verb
		already     bool
		out, inTold string
	}{
		{Start, false, "started app\n", ""},
		{Stop, false, "stopped app\n", "next: agentbox start app"},
		{Stop, true, "stopped app\n", "box app was stopped already"},
		{Pause, false, "paused app\n", "next: agentbox unpause app"},
		{Pause, true, "paused app\n", "box app was paused already"},
		{Unpause, false, "unpaused app\n", ""},
		{Unpause, true, "unpaused app\n", "box app was running already"},
	} {
		s, _, out, words := streams.Test()
		k := &keeper{already: tc.already}
		err := Run(t.Context(), options(s, k, tc.verb))
		if err != nil || out.String() != tc.out || !strings.Contains(words.String(), tc.inTold) || len(k.calls) != 1 || k.calls[0] != tc.verb.name+" app" {
			t.Errorf("%s: %v, calls %v, %s%s", tc.verb.name, err, k.calls, out, words)
		}
	}
}

func TestWhatDidNotLandIsNamed(t *testing.T) {
	for _, v := range []Verb{Stop, Pause} {
		k := &keeper{tips: []boxes.Tip{{Ref: "refs/heads/x\x1b[2J", OID: oid}}}
		s, _, _, words := streams.Test()
		if err := Run(t.Context(), options(s, k, v)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(words.String(), `warning: not landed, kept in box app: 222222222222 of "refs/heads/x\u001b[2J"`) {
			t.Errorf("%s: %s", v.name, words)
		}
	}
}

func TestOneFailureKeepsTheVerbFromNoOtherBox(t *testing.T) {
	s, _, out, _ := streams.Test()
	k := &keeper{broken: "b"}
	o := options(s, k, Pause)
	o.Boxes = chosen("a", "b", "c", "d", "e", "f")
	err := Run(t.Context(), o)
	if out.String() != "paused a\npaused c\npaused d\npaused e\npaused f\n" || len(k.calls) != 6 {
		t.Errorf("calls %v; %s", k.calls, out)
	}
	if e := fail.Of(err); e.Code != fail.Unavailable || e.Error() != "pause failed on 1 of 6 boxes" || len(e.Rows) != 1 || e.Rows[0] != "b: not reachable" {
		t.Errorf("%+v", e)
	}
}

func TestResultsAsJSON(t *testing.T) {
	s, _, out, _ := streams.Test()
	o := options(s, &keeper{broken: "b"}, Stop)
	o.Boxes, o.JSON.On = chosen("a", "b"), true
	err := Run(t.Context(), o)
	want := `[{"name":"a","id":"","state":"stopped"},{"name":"b","id":"","error":"not reachable"}]` + "\n"
	if out.String() != want || err == nil {
		t.Errorf("%v, %s", err, out)
	}
	s, _, out, _ = streams.Test()
	d := destroyOptions(s, &keeper{tips: []boxes.Tip{{Ref: "refs/stash", OID: oid}}})
	d.Force, d.JSON.On = true, true
	if err := RunDestroy(t.Context(), d); err != nil || out.String() != `[{"name":"app","id":"","lost":["222222222222 of \"refs/stash\""]}]`+"\n" {
		t.Errorf("%v, %s", err, out)
	}
}

func TestNoBoxIsNoFailure(t *testing.T) {
	s, _, out, words := streams.Test()
	o := options(s, &keeper{}, Stop)
	o.Boxes, o.JSON.On = chosen(), true
	if err := Run(t.Context(), o); err != nil || out.String() != "[]\n" || words.String() != "there is no box\n" {
		t.Errorf("%v, %s%s", err, out, words)
	}
	d := destroyOptions(s, &keeper{})
	d.Boxes = chosen()
	if err := RunDestroy(t.Context(), d); err != nil {
		t.Error(err)
	}
}

func TestAnInterruptBeginsNoFurtherBox(t *testing.T) {
	k := &keeper{}
	s, _, _, _ := streams.Test()
	o := options(s, k, Stop)
	o.Boxes = chosen("a", "b")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fail.ErrInterrupted)
	if err := Run(ctx, o); fail.Of(err).Code != fail.Interrupted || len(k.calls) != 0 {
		t.Errorf("%v, calls %v", err, k.calls)
	}
}

func TestOneBoxThatWouldLoseCommitsKeepsAll(t *testing.T) {
	k := &keeper{tips: []boxes.Tip{{Ref: "refs/stash", OID: oid}}}
	s, _, _, _ := streams.Test()
	o := destroyOptions(s, k)
	o.Boxes, o.Yes = chosen("a", "b"), true
	if err := RunDestroy(t.Context(), o); fail.Of(err).Code != fail.Refused || len(fail.Of(err).Rows) != 2 || len(k.calls) != 0 {
		t.Errorf("%v, calls %v", err, k.calls)
	}
}

func TestForceDoesNotWaitForASilentBox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{silent: true}
		s, _, _, _ := streams.Test()
		o := destroyOptions(s, k)
		o.Force = true
		began := time.Now()
		err := RunDestroy(t.Context(), o)
		if took := time.Since(began); err != nil || len(k.calls) != 1 || took != forceWait { // of the bubble's clock
			t.Errorf("%v, calls %v after %s", err, k.calls, took)
		}
	})
}

func TestDestroy(t *testing.T) {
	lost := []boxes.Tip{{Ref: "refs/stash", OID: oid}}
	cases := []struct {
		what       string
		yes, force bool
		terminal   bool
		answer     string
		tips       []boxes.Tip
		err        error
		code       fail.Code
		destroyed  bool
	}{
		{what: "nobody can be asked", code: fail.Usage},
		{what: "--yes", yes: true, destroyed: true},
		{what: "a yes", terminal: true, answer: "y\n", destroyed: true},
		{what: "a no", terminal: true, answer: "n\n"},
		{what: "an empty line is a no", terminal: true, answer: "\n"},
		{what: "the end of input is a no", terminal: true},
		{what: "commits that are nowhere else", yes: true, tips: lost, code: fail.Refused},
		{what: "they are not asked about", terminal: true, answer: "y\n", tips: lost, code: fail.Refused},
		{what: "--force loses them", force: true, tips: lost, destroyed: true},
		{what: "a stopped box that was not clean", yes: true, err: boxes.ErrUnseen, code: fail.Refused},
		{what: "--force on it", force: true, err: boxes.ErrUnseen, destroyed: true},
		{what: "a box that cannot be asked", yes: true, err: errors.New("no answer"), code: fail.Failed},
	}
	for _, tc := range cases {
		t.Run(tc.what, func(t *testing.T) {
			k := &keeper{tips: tc.tips, err: tc.err}
			s, in, out, words := streams.Test()
			s.InTTY, s.ErrTTY = tc.terminal, tc.terminal
			in.WriteString(tc.answer)
			err := RunDestroy(t.Context(), &DestroyOptions{Streams: s, Boxes: chosen("app"), Keeper: func() (Keeper, error) { return k, nil }, Yes: tc.yes, Force: tc.force})
			code := fail.OK
			if err != nil {
				code = fail.Of(err).Code
			}
			if code != tc.code || (len(k.calls) == 1) != tc.destroyed || strings.Contains(out.String(), "destroyed app") != tc.destroyed {
				t.Errorf("code %d, calls %v, %v; %s%s", code, k.calls, err, out, words)
			}
			if tc.destroyed && !strings.Contains(words.String(), "stays on branch agentbox/app of /p") {
				t.Errorf("it is not said what is kept: %s", words)
			}
			if tc.destroyed && tc.tips != nil && !strings.Contains(words.String(), "warning: lost with the box: 222222222222") {
				t.Errorf("it is not said what is lost: %s", words)
			}
		})
	}
}

func TestTheRefusalSaysWhatSavesTheCommits(t *testing.T) {
	for ref, want := range map[core.Untrusted]string{
		"refs/heads/agentbox/app": "agentbox land app says why they did not land; agentbox destroy --force app loses them",
		"refs/heads/feature":      "agentbox shell app: what is brought into agentbox/app there lands; agentbox destroy --force app loses them",
	} {
		s, _, _, _ := streams.Test()
		k := &keeper{tips: []boxes.Tip{{Ref: ref, OID: oid}}}
		o := destroyOptions(s, k)
		o.Yes = true
		err := RunDestroy(t.Context(), o)
		if err == nil || fail.Of(err).Next != want {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

func TestAnInterruptAtTheQuestionDestroysNothing(t *testing.T) {
	k := &keeper{}
	s, _, _, _ := streams.Test()
	s.InTTY, s.ErrTTY = true, true
	silent, hangUp := io.Pipe()
	defer hangUp.Close()
	s.In = silent
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fail.ErrInterrupted)
	err := RunDestroy(ctx, destroyOptions(s, k))
	if err == nil || fail.Of(err).Code != fail.Interrupted || len(k.calls) != 0 {
		t.Errorf("calls %v, %v", k.calls, err)
	}
}
