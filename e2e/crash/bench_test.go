package crash

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkPush holds a push through the relay against one of the user, in
// turns, without a box around the client: what it reports is the ratio of the
// medians.
func BenchmarkPush(b *testing.B) {
	w := newWorld(b)
	must(b, w.remote.Hook(repository, "pre-receive", ""))
	timed := func(dir string, args ...string) time.Duration {
		w.git(dir, "commit", "-q", "--allow-empty", "-m", "more")
		begin := time.Now()
		w.git(dir, append([]string{"push", "-q", "origin"}, args...)...)
		return time.Since(begin)
	}
	var direct, relayed []time.Duration
	for b.Loop() {
		direct = append(direct, timed(w.user, "HEAD:refs/heads/direct"))
		relayed = append(relayed, timed(w.box, "HEAD:"+own))
	}
	median := func(all []time.Duration) float64 {
		return float64(slices.Sorted(slices.Values(all))[len(all)/2]) / float64(time.Millisecond)
	}
	b.ReportMetric(median(relayed)/median(direct), "ratio")
	b.ReportMetric(median(direct), "ms-direct")
	b.ReportMetric(median(relayed)-1.3*median(direct), "ms-over-1.3x")
}
