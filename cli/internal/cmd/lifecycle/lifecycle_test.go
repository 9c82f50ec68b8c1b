package lifecycle

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/madarco/agentbox/cli/internal/boxes"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/cli/internal/streams"
	"github.com/madarco/agentbox/core"
)

const oid = core.ObjectID("2222222222222222222222222222222222222222")

type keeper struct {
	calls []string
	tips  []boxes.Tip
	err   error // of Loss
}

func (k *keeper) Start(context.Context, core.Box) error {
	k.calls = append(k.calls, "start")
	return nil
}

func (k *keeper) Stop(context.Context, core.Box) ([]boxes.Tip, error) {
	k.calls = append(k.calls, "stop")
	return k.tips, nil
}
func (k *keeper) Loss(context.Context, core.Box) ([]boxes.Tip, error) { return k.tips, k.err }

func (k *keeper) Destroy(context.Context, core.Box) error {
	k.calls = append(k.calls, "destroy")
	return nil
}

func options(s *streams.Streams, k *keeper) Options {
	return Options{
		Streams: s,
		Box: func(string) (core.Box, error) {
			return core.Box{Name: "app", ProjectRoot: "/p", Repos: []core.Repo{{Kind: "root", Branch: "agentbox/app", WorkTree: "/p"}}}, nil
		},
		Keeper: func() (Keeper, error) { return k, nil },
	}
}

func TestStartAndStop(t *testing.T) {
	k := &keeper{tips: []boxes.Tip{{Ref: "refs/heads/x\x1b[2J", OID: oid}}}
	s, _, out, words := streams.Test()
	o := options(s, k)
	if err := RunStart(t.Context(), &o); err != nil {
		t.Fatal(err)
	}
	if err := RunStop(t.Context(), &o); err != nil {
		t.Fatal(err)
	}
	if out.String() != "started app\nstopped app\n" || !strings.Contains(words.String(), `warning: not landed, kept in the box: 222222222222 of "refs/heads/x\u001b[2J"`) {
		t.Errorf("%s%s", out, words)
	}
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
			err := RunDestroy(t.Context(), &DestroyOptions{Options: options(s, k), Yes: tc.yes, Force: tc.force})
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
		err := RunDestroy(t.Context(), &DestroyOptions{Options: options(s, k), Yes: true})
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
	err := RunDestroy(ctx, &DestroyOptions{Options: options(s, k)})
	if err == nil || fail.Of(err).Code != fail.Interrupted || len(k.calls) != 0 {
		t.Errorf("calls %v, %v", k.calls, err)
	}
}
