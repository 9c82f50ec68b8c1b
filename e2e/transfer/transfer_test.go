package transfer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/e2e/laptop"
)

func TestABoxCopiesToTheHost(t *testing.T) {
	l := laptop.New(t)
	l.Create()

	l.InBoxOK(`mkdir -p made/sub && echo report >made/report.txt && ln -s /etc/passwd made/sub/link && agentbox-ctl cp toHost made out/`)
	if text, err := os.ReadFile(filepath.Join(l.Project, "out", "made", "report.txt")); string(text) != "report\n" {
		t.Errorf("%q, %v", text, err)
	}
	if link, err := os.Lstat(filepath.Join(l.Project, "out", "made", "sub", "link")); err == nil {
		t.Error("a link came along:", link.Mode())
	}
	if audit := l.OK("audit").Out; !strings.Contains(audit, "cp.toHost") || !strings.Contains(audit, "contained copy to host") {
		t.Error(audit)
	}

	hook := filepath.Join(l.Project, ".git", "hooks", "pre-commit")
	const copying = `agentbox-ctl cp toHost made/report.txt .git/hooks/pre-commit`
	parked := make(chan laptop.Result, 1)
	go func() { parked <- l.InBox(copying) }()
	if screen := l.Answer(asked(l), "--deny"); !strings.Contains(screen, hook) {
		t.Errorf("the destination is not shown:\n%s", screen)
	}
	if r := <-parked; r.Code != 10 {
		t.Errorf("%+v", r)
	}
	if _, err := os.Lstat(hook); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// asked waits for the question about the copy.
func asked(l *laptop.Laptop) string {
	l.T.Helper()
	var all []struct{ ID, Method string }
	out := l.OK("agent", "approvals", l.Box, "--json", "--wait", "30s").Out
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 1 || all[0].Method != "cp.toHost" {
		l.T.Fatalf("agent approvals printed %s (%v); want one question about a copy", out, err)
	}
	return all[0].ID
}
