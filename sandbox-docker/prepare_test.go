package sandboxdocker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/provider"
	sandboxdocker "github.com/madarco/agentbox/sandbox-docker"
)

// statusOf is what prepare --status says of an image.
func statusOf(t *testing.T, o sandboxdocker.Options, name string) provider.ImageStatus {
	t.Helper()
	p, err := sandboxdocker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	all, err := p.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Image == name {
			return s
		}
	}
	t.Fatalf("no status of %s in %+v", name, all)
	return provider.ImageStatus{}
}

func TestStatusSaysWhatACreateWouldDo(t *testing.T) {
	t.Parallel()
	o, log := imageOptions(t, t.Name())
	if s := statusOf(t, o, "full"); s.State != provider.ImageMissing || s.Ref != o.Repository+":full" || s.ID != "" || s.Was != "" || s.Now == "" {
		t.Errorf("before the first create: %+v", s)
	}
	missing := statusOf(t, o, "lean")
	if missing.State != provider.ImageMissing || len(log.lines) > 0 {
		t.Errorf("before the first create: %+v, and it said %q", missing, log.lines)
	}

	p, err := sandboxdocker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	var taken []string
	made, err := p.Prepare(t.Context(), provider.PrepareRequest{Image: "lean", Step: func(name string) func(error) {
		taken = append(taken, name)
		return func(err error) {
			if err != nil {
				t.Errorf("step %s: %v", name, err)
			}
		}
	}})
	if err != nil || made.State != provider.ImageFresh || made.Was != missing.Now || made.ID == "" {
		t.Errorf("prepared: %+v, %v", made, err)
	}
	if got := strings.Join(taken, ", "); got != "find a base, build lean, add agentbox-ctl" {
		t.Errorf("steps: %s", got)
	}
	if s := statusOf(t, o, "lean"); s != made {
		t.Errorf("status %+v, prepared %+v", s, made)
	}

	said := len(log.lines)
	o.Ctl = func(string) ([]byte, error) { return []byte("two"), nil }
	stale := statusOf(t, o, "lean")
	if stale.State != provider.ImageStale || stale.ID != made.ID || stale.Was != made.Now || stale.Now == made.Now {
		t.Errorf("with another agentbox-ctl: %+v, was %+v", stale, made)
	}
	if len(log.lines) != said {
		t.Errorf("to look made it work: %q", log.lines[said:])
	}
	if image := ensure(t, o); image.ID == stale.ID {
		t.Error("a create takes what status calls stale")
	}
}

// A box in which another agentbox-ctl runs, or none, is refused before it is
// made: it would not come up, or not understand what it is sent.
func TestImagesOfTheUsersNeedThisAgentboxCtl(t *testing.T) {
	t.Parallel()
	at := endpoint(t)
	o, _ := imageOptions(t, "another program")
	old := ensure(t, o)
	for ref, words := range map[string]string{
		old.ID:                         `is that of agentbox "(devel)"`,
		o.Repository + ":lean-content": "holds no agentbox-ctl",
	} {
		req := draft(t)
		req.Image = ref
		_, err := newProvider(t, at).Create(t.Context(), req)
		if !errors.Is(err, provider.ErrWrongImage) || !strings.Contains(err.Error(), words) {
			t.Errorf("Create from %s: %v, want ErrWrongImage that says %q", ref, err, words)
		}
		if left := leftovers(t, at, req.Box.ID); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
	req := draft(t)
	lean, err := newProvider(t, at).EnsureImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	req.Image = lean.ID
	if box := create(t, newProvider(t, at), req); box.Docker.Image != lean.ID || box.Docker.ImageID != lean.ID {
		t.Errorf("record of a box from an image of the user's: %+v", box.Docker)
	}
}
