package setup_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/setup"
)

func header() setup.Header {
	return setup.Header{
		BoxID: "b00000001", BoxName: "box", RelayEnv: map[string]string{"AGENTBOX_RELAY_TOKEN": "t"}, Go: true,
		Repos: []setup.Repo{{
			Repo:         core.Repo{Key: "0123456789abcdef", Branch: "agentbox/box", BoxPath: core.WorkspacePath, ObjectFormat: "sha1"},
			Refs:         []setup.Ref{{Name: "refs/tags/v1", OID: core.ZeroID(40), Peeled: core.ZeroID(40)}},
			SkipWorktree: [][]byte{[]byte("not \xff UTF-8")},
			Info:         map[string]string{"exclude": "*.log\n"},
			HasIndex:     true,
		}},
	}
}

// stream writes a header and sections of the given contents.
func stream(t testing.TB, contents ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := setup.WriteHeader(&out, header()); err != nil {
		t.Fatal(err)
	}
	for _, c := range contents {
		err := setup.WriteSection(&out, func(w io.Writer) error {
			_, err := io.Copy(w, iotest.OneByteReader(strings.NewReader(c)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	contents := []string{"", "index", strings.Repeat("large ", 1<<19)}
	in := iotest.HalfReader(bytes.NewReader(stream(t, contents...)))
	got, err := setup.ReadHeader(in)
	if err != nil {
		t.Fatal(err)
	}
	if got.BoxID != "b00000001" || !got.Go || len(got.Repos) != 1 || string(got.Repos[0].SkipWorktree[0]) != "not \xff UTF-8" || got.Repos[0].Info["exclude"] != "*.log\n" {
		t.Errorf("header came back as %+v", got)
	}
	for i, want := range contents {
		text, err := io.ReadAll(setup.NewSection(in))
		if err != nil || string(text) != want {
			t.Errorf("section %d: %d bytes of %d, %v", i, len(text), len(want), err)
		}
	}
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Error("sections leave something over")
	}
}

// TestCutStream makes sure that a section which ends early never looks whole.
func TestCutStream(t *testing.T) {
	t.Parallel()
	whole := stream(t, "some index")
	for n := range len(whole) {
		in := bytes.NewReader(whole[:n])
		if _, err := setup.ReadHeader(in); err != nil {
			continue
		}
		if _, err := io.ReadAll(setup.NewSection(in)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d of %d: %v", n, len(whole), err)
		}
	}
}

func TestForeignStream(t *testing.T) {
	t.Parallel()
	whole := stream(t)
	long := bytes.Clone(whole)
	binary.BigEndian.PutUint32(long[8:], 1<<31)
	for name, data := range map[string][]byte{"other magic": append([]byte("abxset99"), whole[8:]...), "endless header": long, "no JSON": []byte("abxset01\x00\x00\x00\x02[]")} {
		if _, err := setup.ReadHeader(bytes.NewReader(data)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := io.ReadAll(setup.NewSection(strings.NewReader("\xff\xff\xff\xff"))); err == nil {
		t.Error("an endless chunk is taken")
	}
}

func TestFillErrorsComeThrough(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if err := setup.WriteSection(io.Discard, func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(stream(f, "a", "", "b"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		in := bytes.NewReader(data)
		if _, err := setup.ReadHeader(in); err != nil {
			return
		}
		for range setup.Sections {
			if _, err := io.Copy(io.Discard, setup.NewSection(in)); err != nil {
				return
			}
		}
	})
}
