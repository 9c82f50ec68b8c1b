package gitgate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay"
	"github.com/madarco/agentbox/relay/gitgate"
)

// victim is a process that takes in one hand-in, as the relay does.
type victim struct {
	Home core.Home
	Git  string
	Box  core.Box
	Pack string
	Tip  core.ObjectID
}

const victimEnv = "AGENTBOX_TEST_VICTIM"

// TestVictim is the process of TestALandingSurvivesAKillAtEveryStep and no test.
func TestVictim(t *testing.T) {
	var v victim
	if text := os.Getenv(victimEnv); text == "" {
		return
	} else if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	v.run(t)
}

func (v victim) run(t *testing.T) {
	t.Helper()
	host, err := gitgate.New(v.Home, gitgate.Options{Git: v.Git})
	check(t, err)
	gate, err := host.Gate(t.Context(), v.Box, v.Box.Repos[0])
	check(t, err)
	pack, err := os.Open(v.Pack)
	check(t, err)
	defer pack.Close()
	check(t, gate.Import(t.Context(), pack, []policy.RefUpdate{{Ref: wire.LandingPrefix + string(ownBranch), New: v.Tip}}))
	l, err := gate.Land(t.Context(), relay.LandRequest{Branch: ownBranch, Tip: v.Tip})
	check(t, err)
	if !l.Here() {
		t.Errorf("%+v", l)
	}
}

// killer is a git that kills whoever started it, at its nth start: before it
// does anything, after it has done its work, or while it works.
func killer(t *testing.T, n int, when string) string {
	t.Helper()
	dir := t.TempDir()
	git, err := exec.LookPath("git")
	check(t, err)
	act := map[string]string{
		"before": "kill -9 $PPID; exit 1",
		"after":  git + ` "$@"; kill -9 $PPID; exit 1`,
		"during": "kill -9 $PPID",
	}[when]
	script := fmt.Sprintf("#!/bin/sh\nn=1\nwhile ! mkdir '%s/'$n 2>/dev/null; do n=$((n+1)); done\nif [ $n -eq %d ]; then %s; fi\nexec %s \"$@\"\n", dir, n, act, git)
	path := filepath.Join(dir, "git")
	check(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

// TestALandingSurvivesAKillAtEveryStep: whatever step the relay was killed at,
// the next one takes the same hand-in, or the one after it.
func TestALandingSurvivesAKillAtEveryStep(t *testing.T) {
	for _, when := range []string{"before", "after", "during"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			landed := w.record.BaseOID
			for n, killed := 1, true; killed; n++ {
				tip := w.next(n)
				v := victim{w.home, killer(t, n, when), w.rec, w.pack(w.box, tip, w.record.BaseOID), tip}
				killed = v.die(t)
				w.again()
				if l := w.land(tip, w.record.BaseOID); !l.Here() || w.user.ref(ownBranch.Ref()) != tip {
					t.Fatalf("after a kill at step %d: %+v", n, l)
				}
				if killed && n > 50 {
					t.Fatal("a landing takes more steps than can be right")
				}
				landed = tip
			}
			for _, r := range []repo{w.user, w.gateRepo(), w.seed()} {
				r.git("fsck", "--strict")
			}
			if left := w.gateRepo().git("for-each-ref", "refs/box/import", "refs/box/kept"); left != "" {
				t.Errorf("refs are left over:\n%s", left)
			}
			for _, pattern := range []string{"incoming-*", "tmp_*"} {
				if left, _ := filepath.Glob(filepath.Join(w.gateRepo().dir, "objects", pattern)); len(left) > 0 {
					t.Errorf("left in the gate: %v", left)
				}
			}
			if !w.user.has(landed) {
				t.Error("the last commit is gone")
			}
		})
	}
}

// next makes the box's next commit, every other time one that rewrites the last.
func (w *world) next(n int) core.ObjectID {
	w.t.Helper()
	if n%2 == 0 {
		w.box.git("commit", "-q", "--amend", "-m", "better "+strconv.Itoa(n))
		return w.box.id("HEAD")
	}
	return w.box.commit("file", strconv.Itoa(n))
}

// again is the relay's next process.
func (w *world) again() {
	w.t.Helper()
	w.open(gitgate.Options{})
	gate, err := w.host.Gate(w.t.Context(), w.rec, w.record)
	check(w.t, err)
	w.gate = gate
}

// die runs the victim, and tells whether it was killed.
func (v victim) die(t *testing.T) bool {
	t.Helper()
	text, err := json.Marshal(v)
	check(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^TestVictim$", "-test.count=1")
	cmd.Env = append(os.Environ(), victimEnv+"="+string(text))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	if !strings.Contains(err.Error(), "signal: killed") {
		t.Fatalf("the victim ended by itself: %v\n%s", err, out)
	}
	return true
}
