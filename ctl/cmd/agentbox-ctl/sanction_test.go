package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/ctl/landing"
)

func TestSanctionTellsTheDaemonOfTheBranch(t *testing.T) {
	dir := t.TempDir()
	word := filepath.Join(dir, "go")
	if err := syscall.Mkfifo(word, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(word, os.O_RDWR, 0) // process 1 reads there
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	if err := landing.WriteList(dir, []landing.Repo{{Key: "k", Branches: []core.BranchName{"agentbox/b"}}}); err != nil {
		t.Fatal(err)
	}
	if code, _, words := ctl(t, "", "sanction", "--state-dir", dir, "--word", word, "--", "--upload-pack=x"); code == 0 || !strings.Contains(words, "invalid") {
		t.Errorf("an option as a branch: %d, %s", code, words)
	}
	if code, _, words := ctl(t, "", "sanction", "--state-dir", dir, "--word", word, "--repo", "k", "dev"); code != 0 {
		t.Fatalf("%d, %s", code, words)
	}
	repos, err := landing.ReadList(dir)
	if err != nil || len(repos[0].Branches) != 2 || repos[0].Branches[1] != "dev" {
		t.Errorf("%+v, %v", repos, err)
	}
	got := make([]byte, 3)
	if _, err := fifo.Read(got); err != nil || string(got) != "go\n" {
		t.Errorf("process 1 read %q, %v", got, err)
	}
}
