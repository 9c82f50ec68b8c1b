package headfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/madarco/agentbox/relay/store"
)

func head(n int64) store.Head {
	return store.Head{Seq: n, Hash: strings.Repeat(string(rune('a'+n%6)), 64)}
}

func made(t *testing.T, h store.Head) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.head")
	if err := Create(path, h); err != nil {
		t.Fatal(err)
	}
	return path
}

func want(t *testing.T, path string, h store.Head) {
	t.Helper()
	if got, err := Read(path); err != nil || got != h {
		t.Fatalf("read %+v, %v; want %+v", got, err, h)
	}
}

func TestTheLastHeadIsTheOneThatIsRead(t *testing.T) {
	path := made(t, store.Head{})
	want(t, path, store.Head{})
	for n := int64(1); n < 8; n++ {
		if n%3 == 0 {
			n += 5 // a commit may hold several entries
		}
		f, _, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Put(head(n)), f.Put(head(n+1)), f.Close()); err != nil {
			t.Fatal(err)
		}
		want(t, path, head(n+1))
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 || info.Size() != blocks*blockSize {
		t.Errorf("the file is %v, %d bytes, %v", info.Mode(), info.Size(), err)
	}
}

// TestATornLineLeavesTheHeadBefore tears every write of the second head at
// every byte, as a power cut may.
func TestATornLineLeavesTheHeadBefore(t *testing.T) {
	path := made(t, head(1))
	f, _, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // a test's
	if err := f.Put(head(2)); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Put(head(13)); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := 0
	for i := range after {
		if after[i] != before[i] {
			end = i + 1
		}
	}
	for cut := range end {
		torn := append(append([]byte{}, after[:cut]...), before[cut:]...)
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path)
		if err != nil || got != head(2) {
			t.Fatalf("torn at %d it reads %+v, %v", cut, got, err)
		}
	}
}

func TestWhatHoldsNoHead(t *testing.T) {
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	path := made(t, head(3))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"an empty file":  "",
		"another number": strings.ReplaceAll(string(whole), "3 d", "4 d"),
		"another hash":   strings.ReplaceAll(string(whole), "dddd", "eeee"),
		"another form":   strings.ReplaceAll(string(whole), "head-1", "head-2"),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
		if _, _, err := Open(path); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
