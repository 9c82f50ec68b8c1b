package pktline

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReaderRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want error
	}{
		"upper-case hex":        {"000Ahello\n", ErrMalformed},
		"not hex":               {"zzzz", ErrMalformed},
		"signed":                {"+00ahello\n", ErrMalformed},
		"reserved length":       {"0003", ErrMalformed},
		"longer than a packet":  {"fff1" + strings.Repeat("x", 65517), ErrMalformed},
		"largest number":        {"ffff", ErrMalformed},
		"cut length":            {"00", io.ErrUnexpectedEOF},
		"cut data":              {"000ahel", io.ErrUnexpectedEOF},
		"length without data":   {"0009", io.ErrUnexpectedEOF},
		"nothing":               {"", io.EOF},
		"more than the bound":   {"0028" + strings.Repeat("x", 36), ErrTooLong},
		"flushes up to a bound": {strings.Repeat("0000", 9), ErrTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(strings.NewReader(tc.in), 32)
			var err error
			for err == nil {
				_, err = r.Next()
			}
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v; want %v", err, tc.want)
			}
		})
	}
}

func TestReaderLeavesWhatFollows(t *testing.T) {
	src := strings.NewReader("0009line\n00000001000200040008abcdPACK")
	r := NewReader(src, 1<<10)
	want := []struct {
		kind Kind
		text string
	}{{Data, "line"}, {Flush, ""}, {Delim, ""}, {End, ""}, {Data, ""}, {Data, "abcd"}}
	for i, w := range want {
		p, err := r.Next()
		if err != nil || p.Kind != w.kind || p.Text() != w.text {
			t.Fatalf("packet %d: got %v %q, %v; want %v %q", i, p.Kind, p.Text(), err, w.kind, w.text)
		}
	}
	rest, err := io.ReadAll(src)
	if err != nil || string(rest) != "PACK" {
		t.Errorf("rest is %q, %v; want PACK", rest, err)
	}
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	for _, err := range []error{w.Printf("v%d\n", 1), w.Delim(), w.Data(nil), w.Flush()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, want := out.String(), "0007v1\n000100040000"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	if err := w.Data(make([]byte, MaxData+1)); err == nil {
		t.Error("a packet that is too long was written")
	}
}

func TestBandSplits(t *testing.T) {
	var out bytes.Buffer
	long := bytes.Repeat([]byte("x"), 2*MaxData)
	if n, err := NewWriter(&out).Band(BandProgress).Write(long); n != len(long) || err != nil {
		t.Fatalf("wrote %d, %v", n, err)
	}
	r, got := NewReader(&out, 1<<20), 0
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || p.Data[0] != BandProgress {
			t.Fatalf("band %d, %v", p.Data[0], err)
		}
		got += len(p.Data) - 1
	}
	if got != len(long) {
		t.Errorf("%d bytes came through; want %d", got, len(long))
	}
}

// FuzzReader holds that what is read, written again, is the same bytes.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"", "0000", "0004", "000ahello\n0000", "0003", "00010002", "fff0"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		src := bytes.NewReader(in)
		r := NewReader(src, 1<<16)
		var out bytes.Buffer
		w := NewWriter(&out)
		for {
			p, err := r.Next()
			if err != nil {
				break
			}
			switch p.Kind {
			case Data:
				err = w.Data(p.Data)
			case Flush:
				err = w.Flush()
			case Delim:
				err = w.Delim()
			case End:
				_, err = out.WriteString("0002")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(in, out.Bytes()) {
			t.Errorf("%q was read as %q", in, out.Bytes())
		}
	})
}
