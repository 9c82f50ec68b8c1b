package output

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

type view struct {
	Name  string `json:"name"`
	State string `json:"state,omitempty"`
	Inner string `json:"-"`
}

func TestFieldsAreTheDeclaredOnes(t *testing.T) {
	if got := Fields[view](); !slices.Equal(got, []string{"name", "state"}) {
		t.Error(got)
	}
	var unknown *UnknownFieldError
	if err := Check[view](JSON{Fields: []string{"name", "Inner"}}); !errors.As(err, &unknown) || unknown.Field != "Inner" {
		t.Errorf("got %v", err)
	}
}

func TestJSONKeepsTheFieldsThatWereAskedFor(t *testing.T) {
	views := []view{{Name: "a<b", Inner: "secret"}}
	for value, want := range map[string]string{
		"true":       `[{"name":"a<b"}]`,
		"name,state": `[{"name":"a<b","state":null}]`,
	} {
		var j JSON
		if err := j.Set(value); err != nil || !j.On {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := List(&b, j, false, views); err != nil || b.String() != want+"\n" {
			t.Errorf("%s: got %s, %v", value, b.String(), err)
		}
	}
	var b strings.Builder
	if err := List[view](&b, JSON{On: true}, true, nil); err != nil || b.String() != "[]\n" {
		t.Errorf("no views: %q, %v", b.String(), err)
	}
}

// TestJSONActsOnNoTerminal: it means the same, and people may look at it.
func TestJSONActsOnNoTerminal(t *testing.T) {
	for _, text := range []string{"\u202eevil", "\u009b31m", "del\x7f", "zero\u200bwidth", "tag\U000e0041", "\x1b[2J", "é, \U0001f600 and \ufffd", "a\u2028b", "two\nlines\tof"} {
		for _, pretty := range []bool{true, false} {
			var b strings.Builder
			if err := One(&b, JSON{On: true}, pretty, view{Name: text}); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsFunc(strings.ReplaceAll(b.String(), "\n", ""), acts) {
				t.Errorf("%q became %q", text, b.String())
			}
			var back view
			if err := json.Unmarshal([]byte(b.String()), &back); err != nil || back.Name != text {
				t.Errorf("%q reads back as %q, %v", text, back.Name, err)
			}
		}
	}
	if got := string(Escaped([]byte("{\"é\":\"\U0001f600\"}\n"))); got != "{\"é\":\"\U0001f600\"}\n" {
		t.Errorf("what only appears became %q", got)
	}
}

func TestTableAlignsRunesAndTrims(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, [][]string{{"N", "NAME", ""}, {"1", "ä", "x"}, {"10", "long", ""}}); err != nil {
		t.Fatal(err)
	}
	if want := "N   NAME\n1   ä     x\n10  long\n"; b.String() != want {
		t.Errorf("got %q", b.String())
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 90 * time.Minute: "1h", 47 * time.Hour: "47h", 72 * time.Hour: "3d",
	} {
		if got := Age(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

func TestPrintableLeavesNothingThatActsOnATerminal(t *testing.T) {
	for _, text := range []string{"a\rb", "\x1b[2J", "\u202eevil", "\u009b31m", "bad \xff byte", "zero\u200bwidth"} {
		got := Printable("fine\n" + text)
		if strings.ContainsFunc(strings.ReplaceAll(got, "\n", ""), acts) || !strings.HasPrefix(got, "fine\n") {
			t.Errorf("%q became %q", text, got)
		}
	}
}
