package gitgate_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/gitgate"
)

// TestWhatAGCTakesAtThatMomentComesAgain: the user's gc had looked at the
// branches before the landing, and removes objects after it.
func TestWhatAGCTakesAtThatMomentComesAgain(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	check(t, err)
	dir := t.TempDir()
	gc := filepath.Join(dir, "git")
	w := newWorld(t, func(w *world) {
		check(t, os.WriteFile(gc, fmt.Appendf(nil, "#!/bin/sh\n%s \"$@\"\ncode=$?\ncase \"$1 $*\" in \"--git-dir=%s/.git \"*update-ref*) while read -r f; do rm -f \"$f\"; done <%s/doomed; esac\nexit $code\n", git, w.user.dir, dir), 0o700))
		check(t, os.WriteFile(filepath.Join(dir, "doomed"), nil, 0o600))
		w.open(gitgate.Options{Git: gc})
	})
	one := w.box.commit("one", "1\n")
	w.land(one, w.record.BaseOID)
	two := w.box.commit("dir/two", "2\n")
	doomed := ""
	for _, name := range []string{"HEAD^{tree}", "HEAD:dir", "HEAD:dir/two"} {
		id := w.box.git("rev-parse", name)
		doomed += filepath.Join(w.user.dir, ".git", "objects", id[:2], id[2:]) + "\n"
	}
	check(t, os.WriteFile(filepath.Join(dir, "doomed"), []byte(doomed), 0o600))
	if l := w.land(two, one); l.Status != wire.Landed || w.user.ref(ownBranch.Ref()) != two {
		t.Fatalf("%+v", l)
	}
	w.user.git("fsck", "--strict")
}
