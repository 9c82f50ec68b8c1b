package output

import (
	"strings"
	"testing"
)

func TestLinesLetNothingActOnTheTerminal(t *testing.T) {
	var b strings.Builder
	l := NewLines(&b)
	for _, piece := range []string{"On branch ", "x\n\n\x1b]52;c;aGk=\x07", "\nlast", " one"} {
		if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	want := "On branch x\n\n\"\\u001b]52;c;aGk=\\u0007\"\nlast one\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func FuzzLines(f *testing.F) {
	f.Add("a\nb", "\x1b[31m\r", 3)
	f.Add(strings.Repeat("x", maxHeld), "\ny", 1)
	f.Fuzz(func(t *testing.T, a, b string, again int) {
		var whole, pieces strings.Builder
		one := NewLines(&whole)
		one.Write([]byte(a + b)) //nolint:errcheck // a builder takes everything
		one.Close()              //nolint:errcheck // as above
		two := NewLines(&pieces)
		two.Write([]byte(a)) //nolint:errcheck // as above
		two.Write([]byte(b)) //nolint:errcheck // as above
		two.Close()          //nolint:errcheck // as above
		if whole.String() != pieces.String() {
			t.Fatalf("pieces change the text: %q, %q", whole.String(), pieces.String())
		}
		if strings.ContainsFunc(strings.ReplaceAll(whole.String(), "\n", ""), acts) {
			t.Fatalf("something acts: %q", whole.String())
		}
	})
}
