package gitgate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/policy"
)

// BenchmarkPushAmongManyRefs lists and judges where the remote has thousands of
// branches.
func BenchmarkPushAmongManyRefs(b *testing.B) {
	w := newWorld(b, func(w *world) {
		var refs strings.Builder
		for n := range 5000 {
			fmt.Fprintf(&refs, "create refs/remotes/origin/topic/%d HEAD\n", n)
		}
		w.user.feed(refs.String(), "update-ref", "--stdin")
	})
	tip := w.box.commit("README", "second\n")
	check(b, w.importTip(w.pack(w.box, tip, w.record.BaseOID), tip))
	for b.Loop() {
		refs, err := w.gate.Refs(b.Context(), true)
		check(b, err)
		if len(refs.List) < 5000 {
			b.Fatalf("%d refs", len(refs.List))
		}
		_, err = w.gate.Facts(b.Context(), policy.RefUpdate{Ref: ownBranch.Ref(), New: tip})
		check(b, err)
	}
}
