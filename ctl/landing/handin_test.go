package landing

import (
	"bytes"
	"io"
	"os/exec"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/handin"
	"github.com/madarco/agentbox/core/setup"
)

const repoKey = "0123456789abcdef"

func TestHandinCarriesWhatTheBaseLacks(t *testing.T) {
	b := newBench(t)
	base := b.commit(string(branchName))
	b.git("", "-C", b.gate, "fetch", "-q", b.work, string(base)+":refs/base/main")
	b.commit(string(branchName))
	tip := b.commit(string(branchName))
	repo := Repo{Key: repoKey, Path: core.BoxPath(b.work), Base: base, Branches: []core.BranchName{branchName, "unborn"}}

	var stream bytes.Buffer
	if err := WriteHandin(t.Context(), &stream, []Repo{repo}); err != nil {
		t.Fatal(err)
	}
	header, err := handin.ReadHeader(&stream)
	if err != nil || len(header.Tips) != 1 || header.Tips[0] != (handin.Tip{RepoKey: repoKey, Branch: branchName, OID: tip}) {
		t.Fatalf("header = %+v, %v", header, err)
	}
	pack, err := io.ReadAll(setup.NewSection(&stream))
	if err != nil || stream.Len() != 0 {
		t.Fatalf("%v, %d bytes after the pack", err, stream.Len())
	}
	if out := b.git(string(pack), "-C", b.gate, "index-pack", "--stdin", "--fix-thin", "--strict"); out == "" {
		t.Error("no pack was taken")
	}
	if got := b.git("", "-C", b.gate, "rev-list", "--count", string(tip)); got != "3" {
		t.Errorf("the gate reaches %s commits from the tip, want 3", got)
	}
	if err := exec.Command("git", "-C", b.gate, "fsck", "--connectivity-only", string(tip)).Run(); err != nil {
		t.Errorf("the gate lacks something: %v", err)
	}
}

func TestHandinOfARepositoryMadeAnewIsWhole(t *testing.T) {
	b := newBench(t)
	tip := b.commit(string(branchName))
	repo := Repo{Key: repoKey, Path: core.BoxPath(b.work), Base: oid(0xbad), Branches: []core.BranchName{branchName}}
	var stream bytes.Buffer
	if err := WriteHandin(t.Context(), &stream, []Repo{repo}); err != nil {
		t.Fatal(err)
	}
	if _, err := handin.ReadHeader(&stream); err != nil {
		t.Fatal(err)
	}
	pack, err := io.ReadAll(setup.NewSection(&stream))
	if err != nil {
		t.Fatal(err)
	}
	b.git(string(pack), "-C", b.gate, "index-pack", "--stdin", "--strict")
	b.git("", "-C", b.gate, "cat-file", "-e", string(tip)+"^{tree}")
}
