package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// initLimit is what a package may cost at every start. On a machine where even
// /bin/true takes longer, that is the limit.
const initLimit = time.Millisecond

// heavy are the packages that may take longer, by how many allocations they
// may make in it: unlike their time, that does not depend on the machine.
//
//   - reference compiles the grammar of image names, and the engine's client
//     needs it.
var heavy = map[string]int{"github.com/distribution/reference": 4000}

const starts = 30

// initCost is what the runtime says of one package's initialization.
type initCost struct {
	clock       time.Duration
	allocations int
}

// TestNoPackageSlowsEveryStart reads what each package costs before main, the
// least of many starts, since anything else on the machine only adds to it.
func TestNoPackageSlowsEveryStart(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "agentbox")
	if err := os.Symlink(self(t), bin); err != nil {
		t.Fatal(err)
	}
	floor := time.Hour
	least := map[string]initCost{}
	for range starts {
		began := time.Now()
		if err := exec.CommandContext(t.Context(), "/bin/true").Run(); err != nil {
			t.Fatal(err)
		}
		floor = min(floor, time.Since(began))
		for name, cost := range inits(t, bin) {
			if old, seen := least[name]; !seen || cost.clock < old.clock {
				least[name] = cost
			}
		}
	}
	limit := max(initLimit, floor)
	if len(least) == 0 {
		t.Fatal("the start was not traced")
	}
	for name, cost := range least {
		if most, ok := heavy[name]; ok {
			if cost.allocations > most {
				t.Errorf("%s makes %d allocations at every start; the limit is %d", name, cost.allocations, most)
			}
		} else if cost.clock > limit {
			t.Errorf("%s costs %s at every start; the limit is %s", name, cost.clock, limit)
		}
	}
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// inits starts the command once and reads runtime's trace: lines of the form
// "init <package> @<ms> ms, <ms> ms clock, <n> bytes, <n> allocs" (package
// runtime, GODEBUG).
func inits(t *testing.T, bin string) map[string]initCost {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, "--version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	costs := map[string]initCost{}
	for lines := bufio.NewScanner(&trace); lines.Scan(); {
		var name string
		var at, clock float64
		var size, allocations int
		if n, _ := fmt.Sscanf(lines.Text(), "init %s @%f ms, %f ms clock, %d bytes, %d allocs", &name, &at, &clock, &size, &allocations); n == 5 {
			costs[name] = initCost{time.Duration(clock * float64(time.Millisecond)), allocations}
		}
	}
	return costs
}

// unlinked are packages whose mere presence slows every start several times.
var unlinked = []string{"github.com/santhosh-tekuri/jsonschema", "github.com/charmbracelet/glamour"}

func TestSlowPackagesAreNotLinked(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, path := range unlinked {
		if strings.Contains(string(out), path) {
			t.Errorf("%s is linked", path)
		}
	}
}
