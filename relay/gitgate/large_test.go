package gitgate_test

import (
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/redlist"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/gitgate"
	"github.com/madarco/agentbox/relay/packscan"
)

// TestALargePackIsAskedAbout, also after a restart of the relay, until what it
// brought has landed.
func TestALargePackIsAskedAbout(t *testing.T) {
	t.Parallel()
	opts := gitgate.Options{Ask: packscan.Defaults.Raised(1 << 20)}
	w := newWorld(t, func(w *world) { w.open(opts) })
	noise := make([]byte, 2<<20)
	fill(noise)
	large := w.box.commit("large", string(noise))
	check(t, w.importTip(w.pack(w.box, large, w.record.BaseOID), large))
	small := w.box.commit("small", "1\n")
	const rule = "3 MiB in one pack, more than the 1 MiB that go unasked"
	w.open(opts) // a relay that remembers nothing
	gate, err := w.host.Gate(t.Context(), w.rec, w.record)
	check(t, err)
	check(t, w.take(gate, w.pack(w.box, small, large), policy.RefUpdate{Ref: ownBranch.Ref(), New: small}))
	f, err := gate.Facts(t.Context(), policy.RefUpdate{Ref: ownBranch.Ref(), New: small})
	if err != nil || len(f.Findings) != 1 || f.Findings[0].Rule != rule {
		t.Errorf("facts %+v, %v", f, err)
	}
	l, err := gate.Land(t.Context(), relay.LandRequest{Branch: ownBranch, Tip: small})
	if err != nil || l.Status != wire.LandedHeld || !strings.Contains(l.Detail, rule) {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err = gate.Land(t.Context(), relay.LandRequest{Branch: ownBranch, Tip: small, Agreed: true}); err != nil || l.Status != wire.Landed {
		t.Errorf("after a yes: %+v, %v", l, err)
	}
	if f, err = gate.Facts(t.Context(), policy.RefUpdate{Ref: ownBranch.Ref(), New: small}); err != nil || len(f.Findings) > 0 {
		t.Errorf("what has landed: %+v, %v", f, err)
	}
}

// TestALargeFileIsAskedAboutWhereverItTurnsUp: it may have come with a commit that
// nobody has answered for yet, and stand in another.
func TestALargeFileIsAskedAboutWhereverItTurnsUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.open(gitgate.Options{Ask: packscan.Defaults.Raised(1 << 20)}) })
	noise := make([]byte, redlist.Large)
	fill(noise)
	base := w.record.BaseOID
	if l := w.land(w.box.commit("large", string(noise)), base); l.Status != wire.LandedHeld {
		t.Fatalf("%+v", l)
	}
	blob := w.box.id("HEAD:large")
	again := w.commitOf([]leaf{{"100644", "again", string(noise)}}, base)
	if l := w.land(again, base, blob); l.Status != wire.LandedHeld || !strings.Contains(l.Detail, "MiB in large files") {
		t.Errorf("%+v", l)
	}
}

// fill writes what no compression makes smaller.
func fill(b []byte) {
	x := uint32(1)
	for i := range b { // xorshift, the same in every run
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
}
