package gitgate_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/relay/gitgate"
)

// TestStoresWhereverTheyLie: on another disk than the user's repository, and that
// in a folder whose name means something in a list of paths.
func TestStoresWhereverTheyLie(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	odd := repo{t, filepath.Join(t.TempDir(), `a:b "c" \d`)}
	repo{t, "/"}.git("clone", "-q", w.user.dir, odd.dir)
	odd.git("config", "user.name", "Ada")
	unpushed := odd.commit("mine", "1\n")
	home, err := os.MkdirTemp("/dev/shm", "agentbox") // a disk of its own where there is one
	if err != nil {
		home = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	host, err := gitgate.New(core.Home(home), gitgate.Options{})
	check(t, err)
	opened, err := host.Open(t.Context(), odd.dir)
	check(t, err)
	before := manifest(t, odd.dir)
	check(t, host.RefreshSeed(t.Context(), opened))
	record := opened.Record(ownBranch)
	_, err = host.Gate(t.Context(), core.Box{ID: "b00000001", Name: "one", Repos: []core.Repo{record}}, record)
	check(t, err)
	gate := repo{t, core.Home(home).Gate("b00000001", record.Key)}
	seed := repo{t, core.Home(home).Seed(record.Key)}
	if !gate.has(unpushed) || seed.has(unpushed) || !seed.has(w.record.BaseOID) {
		t.Error("the stores do not hold what they should")
	}
	gate.git("fsck", "--strict")
	seed.git("fsck", "--strict")
	if after := manifest(t, odd.dir); len(after) != len(before) {
		t.Error("the user's repository changed")
	}
}
