package transfer

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	rules "github.com/madarco/agentbox/core/transfer"
)

func TestParse(t *testing.T) {
	no := false
	for line, want := range map[string]rules.Params{
		"toHost a /b/ out":     {Sources: []string{"/w/a", "/b"}, Dest: "out"},
		"toHost . ~/x":         {Sources: []string{"/w/."}, Dest: "~/x"},
		"toHost -- -rf -y out": {Sources: []string{"/w/-rf", "/w/-y"}, Dest: "out"},
		"toHost a out --no-recursive --exclude *.log --exclude t --no-default-excludes -y": {
			Sources: []string{"/w/a"}, Dest: "out", Recursive: &no, DefaultExcludes: &no, Exclude: []string{"*.log", "t"}, Yes: true,
		},
	} {
		if got, err := Parse(strings.Fields(line), "/w"); err != nil || got.Method != "cp.toHost" || !reflect.DeepEqual(got.Params, want) {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
	}
	for _, line := range []string{"", "toHost", "toHost a", "toHost a --", "sideways a b", "toHost a b --force"} {
		if got, err := Parse(strings.Fields(line), "/w"); !errors.Is(err, ErrUsage) {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
	}
}

func TestPackLeavesLinksOut(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"s/node_modules/x", "s/sub"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil { //nolint:gosec // a work tree
			t.Fatal(err)
		}
	}
	for _, f := range []string{"s/run", "s/sub/f", "s/sub/f.log", "one"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("abc"), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "s", "link")); err != nil {
		t.Fatal(err)
	}
	var notes []string
	note := func(text string) { notes = append(notes, text) }
	var buf bytes.Buffer
	c := rules.Copy{Sources: []string{dir + "/s/.", dir + "/one"}, Choice: rules.Choice{Exclude: []string{"*.log"}}}
	if err := Pack(c, &buf, note); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := rules.Read(&buf, 2, rules.DefaultLimits(), func(e rules.Entry, _ io.Reader) error { got = append(got, e.Path); return nil }); err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(got, " "); s != "0 0/run 0/sub 0/sub/f 1" || len(notes) != 1 || !strings.Contains(notes[0], "link") {
		t.Error(s, notes)
	}
	for _, c := range []rules.Copy{
		{Sources: []string{dir + "/s/link"}},
		{Sources: []string{dir + "/none"}},
		{Sources: []string{dir + "/s"}, Choice: rules.Choice{Flat: true}},
	} {
		if err := Pack(c, io.Discard, note); err == nil {
			t.Errorf("%+v is packed", c)
		}
	}
}
