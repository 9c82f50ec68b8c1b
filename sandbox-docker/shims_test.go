package sandboxdocker_test

import (
	"slices"
	"strings"
	"testing"
)

// TestEveryShimAnswers: whatever is linked to agentbox-ctl is one of the programs
// that it stands in for, and is what a shell of the box finds.
func TestEveryShimAnswers(t *testing.T) {
	t.Parallel()
	p := newProvider(t, endpoint(t))
	box := create(t, p, draft(t))
	linked := strings.Fields(output(t, p, box, "find", "/usr/local/bin", "-lname", "agentbox-ctl", "-printf", "%f\n"))
	slices.Sort(linked)
	if want := []string{"gh", "linear", "notion", "ntn"}; !slices.Equal(linked, want) {
		t.Errorf("linked are %q, want %q", linked, want)
	}
	for _, name := range linked {
		if found := output(t, p, box, "sh", "-c", "command -v "+name); found != "/usr/local/bin/"+name {
			t.Errorf("a shell finds %s as %s", name, found)
		}
		// agentbox-ctl itself would say that it knows no such command.
		code, stdout, stderr := run(t, p, box, name, "no-such-thing")
		if code != 2 || strings.Contains(stdout+stderr, "usage: agentbox-ctl") {
			t.Errorf("%s ended with %d: %s%s", name, code, stdout, stderr)
		}
	}
	if code, stdout, stderr := run(t, p, box, "gh", "auth", "status"); code != 0 || stdout+stderr == "" {
		t.Errorf("gh auth status ended with %d: %s%s", code, stdout, stderr)
	}
}
