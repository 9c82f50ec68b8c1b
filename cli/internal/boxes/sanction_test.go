package boxes

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/madarco/agentbox/cli/internal/factory"
	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/sandbox-core/state"
)

func (w *ward) Sanction(_ context.Context, s wire.SanctionBranch) error {
	w.calls = append(w.calls, "relay "+s.BoxID+" "+s.RepoKey+" "+string(s.Branch))
	return nil
}

func TestPutOnTellsRecordRelayAndBox(t *testing.T) {
	w, k, box := newWard(t)
	root, _ := box.Root()
	for _, tc := range []struct{ branch, booked core.BranchName }{{"feature/x", "feature/x"}, {"main", "main"}, {root.Branch, ""}} {
		w.calls = nil
		if err := k.Note(t.Context(), box, "elsewhere"); err != nil {
			t.Fatal(err)
		}
		noted := record(t, w, box.ID)
		if now, _ := noted.Root(); now.On != "elsewhere" || len(w.calls) != 0 {
			t.Errorf("a branch without a right to it: the record says %+v, calls %q", now, w.calls)
		}
		if err := k.PutOn(t.Context(), box, tc.branch); err != nil {
			t.Fatal(err)
		}
		want := "relay " + box.ID + " " + root.Key + " " + string(tc.booked) + "; box agentbox-ctl sanction --repo " + root.Key + " " + string(tc.branch)
		if got := strings.Join(w.calls, "; "); got != want {
			t.Errorf("%s: calls %q, want %q", tc.branch, got, want)
		}
		kept := record(t, w, box.ID)
		if now, _ := kept.Root(); now.Sanctioned != tc.booked || now.On != "" || now.Branch != root.Branch {
			t.Errorf("%s: the record says %+v", tc.branch, now)
		}
	}
}

func TestNoBoxGetsAnothersBranch(t *testing.T) {
	w, k, box := newWard(t)
	root, _ := box.Root()
	err := state.Open(w.home).Update(t.Context(), func(s *state.State) error {
		other := box
		other.ID, other.Name = "b00000099", "other"
		other.Repos = []core.Repo{root}
		other.Repos[0].Branch = "agentbox/other"
		s.Boxes = append(s.Boxes, other)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.calls = nil
	for _, err := range []error{k.MayPutOn(box, "agentbox/other"), k.PutOn(t.Context(), box, "agentbox/other")} {
		if fail.Of(err).Code != fail.Refused || len(w.calls) != 0 {
			t.Errorf("%v, calls %q", err, w.calls)
		}
	}
	if err := k.MayPutOn(box, root.Branch); err != nil {
		t.Error(err)
	}
}

func TestARelayThatIsDownIsSaid(t *testing.T) {
	_, k, box := newWard(t)
	k.Relay = func(context.Context) (factory.Relay, error) { return nil, errors.New("no relay") }
	if e := fail.Of(k.PutOn(t.Context(), box, "dev")); e.Code != fail.Relay || e.Next != "agentbox start app" {
		t.Errorf("%+v", e)
	}
}
