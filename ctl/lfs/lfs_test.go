package lfs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/ctl/lfs"
)

// The hash is sha256sum's.
const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7\nsize 4\n"

func through(t *testing.T, filter func(string, *bytes.Buffer) error, in string) string {
	t.Helper()
	var out bytes.Buffer
	if err := filter(in, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestContentAndPointer(t *testing.T) {
	store := filepath.Join(t.TempDir(), "lfs")
	clean := func(in string, out *bytes.Buffer) error { return lfs.Clean(store, strings.NewReader(in), out) }
	smudge := func(in string, out *bytes.Buffer) error { return lfs.Smudge(store, strings.NewReader(in), out) }
	if got := through(t, smudge, pointer); got != pointer {
		t.Errorf("a content that is not here became %q", got)
	}
	if got := through(t, clean, "data"); got != pointer {
		t.Errorf("the pointer is %q", got)
	}
	if got := through(t, smudge, pointer); got != "data" {
		t.Errorf("the content is %q", got)
	}
	long := strings.Repeat("x", 3<<20)
	if got := through(t, smudge, through(t, clean, long)); got != long {
		t.Errorf("%d bytes came back of %d", len(got), len(long))
	}
	left, err := os.ReadDir(filepath.Join(store, "tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

func TestWhatIsNoContentGoesThrough(t *testing.T) {
	store := filepath.Join(t.TempDir(), "lfs")
	for _, text := range []string{"", pointer} {
		var out bytes.Buffer
		if err := lfs.Clean(store, strings.NewReader(text), &out); err != nil || out.String() != text {
			t.Errorf("clean %q: %q, %v", text, out.String(), err)
		}
	}
	for _, text := range []string{
		"", "data", strings.Replace(pointer, "3a6e", "../.", 1), strings.Replace(pointer, "3a6e", "3A6E", 1), strings.Replace(pointer, "size 4", "size", 1),
		strings.Repeat("long ", 1000),
	} {
		var out bytes.Buffer
		if err := lfs.Smudge(store, strings.NewReader(text), &out); err != nil || out.String() != text {
			t.Errorf("smudge %q: %q, %v", text, out.String(), err)
		}
	}
}
