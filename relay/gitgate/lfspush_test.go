package gitgate_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/relay"
)

func TestAPushOfPointersWithoutContentsIsRefused(t *testing.T) {
	t.Parallel()
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7\nsize 4\n"
	w := newWorld(t)
	push := func(name, text string) error {
		t.Helper()
		old := w.remote.ref(ownBranch.Ref())
		tip := w.box.commit(name, text)
		updates := []policy.RefUpdate{{Ref: ownBranch.Ref(), Old: old, New: tip}}
		check(t, w.importTip(w.pack(w.box, tip, w.record.BaseOID), tip))
		_, err := w.push(updates...)
		return err
	}
	// Where nothing is kept by git-lfs such a text is a file like others.
	check(t, push("quoted.txt", pointer))
	check(t, os.WriteFile(filepath.Join(w.user.dir, ".gitattributes"), []byte("*.bin filter=lfs\n"), 0o600))
	check(t, push("plain", "text\n"))
	err := push("x.bin", pointer+"\n")
	if !errors.Is(err, relay.ErrRejected) || !strings.Contains(err.Error(), `"x.bin"`) {
		t.Errorf("the push of a pointer: %v", err)
	}
	if got := w.remote.ref(ownBranch.Ref()); got == w.box.id("HEAD") {
		t.Error("the remote has the pointer")
	}
}
