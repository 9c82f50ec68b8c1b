// Package badinput drives creates that cannot end well, against a real engine.
package badinput

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/e2e/laptop"
)

// steps are those of a create, as it names them when they end.
var steps = []string{"relay", "read the history", "find image", "make network", "read the work tree", "start container"}

// TestAnInterruptAtAnyStepLeavesNothing ends creates by SIGINT when a step has
// ended, whatever runs beside it or comes next.
func TestAnInterruptAtAnyStepLeavesNothing(t *testing.T) {
	w := laptop.New(t)
	w.Create() // the image is there, the relay runs, and one box shall stay
	before := traces(w)
	bin, err := filepath.Abs("../../bin/agentbox")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		cmd := exec.Command(bin, "create", "--image", "lean", "--name", "cut-"+core.NewBoxID())
		cmd.Dir, cmd.Env = w.Project, w.Environ()
		words, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		for lines := bufio.NewScanner(io.TeeReader(words, &said)); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "✓ "+step+" ") {
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Error(err)
				}
			}
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("interrupted after %q: %v\n%s", step, err, said.String())
		}
		if after := traces(w); after != before {
			t.Errorf("interrupted after %q it left something: %s, before %s", step, after, before)
		}
	}
}

// traces are all that creates leave: records, registrations, folders, the
// engine's containers and networks of these records, and branches.
func traces(w *laptop.Laptop) string {
	w.T.Helper()
	var boxes []struct{ ID string }
	if err := json.Unmarshal([]byte(w.OK("list", "--all", "--json=id").Out), &boxes); err != nil {
		w.T.Fatal(err)
	}
	var parts []string
	for _, b := range boxes {
		parts = append(parts, b.ID)
	}
	parts = append(parts, w.OK("relay", "status", "--json=boxes").Out)
	folders, err := os.ReadDir(filepath.Join(w.State(), "boxes"))
	if err != nil {
		w.T.Fatal(err)
	}
	for _, f := range folders {
		parts = append(parts, f.Name())
	}
	engine := exec.Command("docker", "ps", "-aq", "--filter", "label=agentbox.project="+w.Project)
	networks := exec.Command("docker", "network", "ls", "-q", "--filter", "label=agentbox.project="+w.Project)
	return strings.Join(append(parts, w.Must(engine), w.Must(networks), w.Git("for-each-ref")), "\n")
}

// TestTwoCreatesAtOnceMakeTwoBoxes with names, numbers and branches of their own.
func TestTwoCreatesAtOnceMakeTwoBoxes(t *testing.T) {
	w := laptop.New(t)
	w.Create()
	type made struct {
		ID, Name, Branch string
		Index            int
	}
	var boxes [2]made
	var both sync.WaitGroup
	for i := range boxes {
		both.Go(func() {
			r := w.Run("create", "--image", "lean", "--json=id,name,index,branch")
			if err := json.Unmarshal([]byte(r.Out), &boxes[i]); err != nil || r.Code != 0 {
				t.Errorf("create: %d, %v, %s", r.Code, err, r.Err)
			}
		})
	}
	both.Wait()
	defer w.Run("destroy", "--force", boxes[0].ID, boxes[1].ID)
	a, b := boxes[0], boxes[1]
	if a.ID == b.ID || a.Name == b.Name || a.Index == b.Index || a.Branch == b.Branch {
		t.Errorf("%+v, %+v", a, b)
	}
}

// TestNamesThatAreTakenMakeNothing: by a box, by a branch, by a container, and
// by a branch that leaves no room for any.
func TestNamesThatAreTakenMakeNothing(t *testing.T) {
	w := laptop.New(t)
	w.Create()
	other := "cut-" + core.NewBoxID()
	w.Must(exec.Command("docker", "create", "--name", "agentbox-"+other, "--network", "none", image(w), "true"))
	t.Cleanup(func() { exec.Command("docker", "rm", "-f", "agentbox-"+other).Run() }) //nolint:errcheck // best effort
	w.Git("branch", "agentbox/"+other+"-branch")
	before := traces(w)
	for _, name := range []string{w.Box, other, other + "-branch"} {
		if r := w.Run("create", "--image", "lean", "--name", name); r.Code != 2 || !strings.Contains(r.Err, "next: choose another name with --name") {
			t.Errorf("%s: %d, %s", name, r.Code, r.Err)
		}
	}
	if after := traces(w); after != before {
		t.Errorf("refused creates left something: %s, before %s", after, before)
	}
}

// image is the one that the world's box is made from.
func image(w *laptop.Laptop) string {
	w.T.Helper()
	return w.Must(exec.Command("docker", "inspect", "-f", "{{.Image}}", "agentbox-"+w.Box))
}
