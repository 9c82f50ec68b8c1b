package fail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/provider"
	"github.com/madarco/agentbox/sandbox-core/state"
)

func TestReport(t *testing.T) {
	boxes := []core.Box{
		{ID: "b00000001", Name: "app", ProjectRoot: "/p", ProjectIndex: 1},
		{ID: "b00000002", Name: "app-2", ProjectRoot: "/p", ProjectIndex: 2},
		{ID: "b00000003", Name: "solo", ProjectRoot: "/q", ProjectIndex: 1},
	}
	resolve := func(ref, root string) error {
		_, err := state.Resolve(boxes, ref, root)
		return err
	}
	cases := []struct {
		what string
		err  error
		code int
		want string
	}{
		{"nothing", nil, 0, ""},
		{"a plain error", errors.New("no luck"), 1, "error: no luck\n"},
		{"a command's code", Exit(143), 143, ""},
		{"a usage error, wrapped", fmt.Errorf("create: %w", Usagef("try again", "bad %s", "flag")), 2, "error: create: bad flag\nnext: try again\n"},
		{"an interrupt", fmt.Errorf("make the box: %w", context.Canceled), 130, "error: interrupted\n"},
		{
			"an engine that says what to do", fmt.Errorf("ask: %w", &provider.UnavailableError{What: "docker at x", Reason: fs.ErrPermission, Next: "start it"}), 3,
			"error: ask: docker at x: not reachable: permission denied\nnext: start it\n",
		},
		{"a dead engine", fmt.Errorf("docker: %w", provider.ErrUnavailable), 3, "error: docker: not reachable\nnext: agentbox doctor\n"},
		{"several boxes", resolve("", "/p"), 2, "error: 2 boxes in project /p\n  1) app  (id b00000001)\n  2) app-2  (id b00000002)\nnext: say which one, by number, name or id\n"},
		{"no boxes", resolve("", "/r"), 2, "error: no box in project /r\nnext: agentbox create makes one; agentbox list --all shows those of other projects\n"},
		{"a slip", resolve("slo", "/p"), 2, "error: no box \"slo\"\n  solo  (id b00000003, in /q)\nnext: did you mean one of these? agentbox list --all shows every box\n"},
		{"a newer state", fmt.Errorf("read: %w", state.ErrNewer), 6, "error: read: a newer version of agentbox wrote the state file\nnext: update agentbox, or set AGENTBOX_HOME to another folder\n"},
		{"a folder that is not writable", fmt.Errorf("create: %w", &fs.PathError{Op: "mkdir", Path: "/h", Err: syscall.EROFS}), 1, "error: create: mkdir /h: read-only file system\nnext: agentbox doctor tries what has to be writable; AGENTBOX_HOME names another state folder\n"},
		{"a full disk", fmt.Errorf("write: %w", &fs.PathError{Op: "write", Path: "/h/x", Err: syscall.ENOSPC}), 3, "error: write: write /h/x: no space left on device\nnext: make room there, for example with agentbox seed purge, or set AGENTBOX_HOME to another disk\n"},
		{"a terminal escape", errors.New("remote: \x1b]0;x\x07"), 1, "error: \"remote: \\u001b]0;x\\u0007\"\n"},
	}
	for _, tc := range cases {
		t.Run(tc.what, func(t *testing.T) {
			var b strings.Builder
			if code := Report(&b, tc.err, false); code != tc.code || b.String() != tc.want {
				t.Errorf("got %d, %q; want %d, %q", code, b.String(), tc.code, tc.want)
			}
		})
	}
}

func TestReportAsJSON(t *testing.T) {
	var b strings.Builder
	code := Report(&b, Usagef("agentbox list", "no <box>"), true)
	if want := `{"error":{"code":2,"message":"no <box>","next":"agentbox list"}}` + "\n"; code != 2 || b.String() != want {
		t.Errorf("got %d, %s", code, b.String())
	}
}

func TestEveryCodeIsDocumentedOnce(t *testing.T) {
	if !slices.IsSortedFunc(Codes, func(a, b Documented) int { return int(a.Code - b.Code) }) {
		t.Error("the table of codes is out of order")
	}
	for _, code := range []Code{OK, Failed, Usage, Unavailable, Relay, Refused, State, Contradict, Timeout, Interrupted} {
		n := 0
		for _, c := range Codes {
			if c.Code == code && c.Meaning != "" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("code %d is documented %d times", code, n)
		}
	}
}
