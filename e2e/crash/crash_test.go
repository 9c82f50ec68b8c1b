package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/core/wire"
)

// attempts is how often a client tries one push: the relay is killed in the
// first only, but what it had begun then may meet the second.
const attempts = 4

// TestAPushHappensOnceWheneverTheRelayIsKilled kills the relay somewhere in each
// of many pushes, own-branch ones and approved ones of main. The client tries
// again until it is told that the push is through, as people do.
func TestAPushHappensOnceWheneverTheRelayIsKilled(t *testing.T) {
	rounds := 9
	if os.Getenv("AGENTBOX_LONG") != "" {
		rounds = 300
	}
	random := seeded(t)
	w := newWorld(t)

	const main = "refs/heads/main"
	span := map[string]time.Duration{own: w.untroubled(own), main: w.untroubled(main)}
	var commits []string
	var slowest time.Duration
	acknowledged := 0
	for round := range rounds {
		ref := own
		if round%3 == 2 {
			ref = main
		}
		commit := w.commit(fmt.Sprint("round ", round))
		commits = append(commits, commit)
		moment := time.Duration(random.Int64N(int64(span[ref])))
		killed := make(chan struct{})
		time.AfterFunc(moment, func() { w.kill(); close(killed) })
		out, err := w.push(ref)
		<-killed
		if err == nil {
			acknowledged++
			if at := w.remoteAt(ref); at != commit {
				t.Fatalf("round %d, killed after %s: %s was acknowledged, and the remote has %s", round, moment, commit, at)
			}
		}
		slowest = max(slowest, w.start())
		for n := 1; err != nil; n++ {
			if n == attempts {
				t.Fatalf("round %d, killed after %s: the push does not get through:\n%s", round, moment, out)
			}
			out, err = w.push(ref)
		}
		if at := w.remoteAt(ref); at != commit {
			t.Fatalf("round %d, killed after %s: the remote has %s, not %s", round, moment, at, commit)
		}
	}
	t.Logf("%d of %d pushes were through when the relay was killed; the slowest recovery took %s", acknowledged, rounds, slowest)
	w.eachOnce(commits)
	w.written(commits)
}

// seeded is where kill moments and answers come from; AGENTBOX_CRASH_SEED
// repeats a run as far as the scheduler lets it.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("AGENTBOX_CRASH_SEED"); given != "" {
		n, err := strconv.ParseUint(given, 10, 64)
		must(t, err)
		seed = n
	}
	t.Logf("AGENTBOX_CRASH_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// untroubled pushes once without a kill and tells how long it takes.
func (w *world) untroubled(ref string) time.Duration {
	w.t.Helper()
	w.commit("untroubled " + ref)
	begin := time.Now()
	if out, err := w.push(ref); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	return time.Since(begin)
}

func (w *world) commit(text string) string {
	w.t.Helper()
	must(w.t, os.WriteFile(filepath.Join(w.box, "file"), []byte(text), 0o644))
	w.git(w.box, "add", "file")
	w.git(w.box, "commit", "-q", "-m", text)
	return w.git(w.box, "rev-parse", "HEAD")
}

func (w *world) remoteAt(ref string) string {
	w.t.Helper()
	return w.git(w.remote.Path(repository), "rev-parse", ref)
}

// eachOnce holds that the remote has moved a ref to each commit exactly once.
func (w *world) eachOnce(commits []string) {
	w.t.Helper()
	pushed, err := w.remote.Pushed(repository)
	must(w.t, err)
	times := map[string]int{}
	for _, u := range pushed {
		times[u.New]++
	}
	for _, commit := range commits {
		if times[commit] != 1 {
			w.t.Errorf("the remote moved a ref to %s %d times", commit, times[commit])
		}
	}
}

// written holds that the audit has a row for each push, and that no question and
// no work is left open.
func (w *world) written(commits []string) {
	w.t.Helper()
	var log strings.Builder
	for _, e := range w.audit() {
		if e.Action == "work.begin" {
			log.Write(e.Detail)
		}
	}
	for _, commit := range commits {
		if !strings.Contains(log.String(), commit) {
			w.t.Errorf("the audit has no row for %s", commit)
		}
	}
	open, err := w.operator.Approvals(w.t.Context(), w.boxID)
	must(w.t, err)
	if len(open) > 0 {
		w.t.Errorf("questions are left: %+v", open)
	}
}

// audit is the whole audit log.
func (w *world) audit() (all []wire.AuditEntry) {
	w.t.Helper()
	for since := int64(0); ; since = all[len(all)-1].Seq {
		page, err := w.operator.Audit(w.t.Context(), since, 1000)
		must(w.t, err)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}
