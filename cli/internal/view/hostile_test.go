package view

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/madarco/agentbox/core/wire"
)

// fill sets every string below v, whatever its type, to text, and makes one
// element of every list and a target of every pointer.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), text)
			}
		}
	}
}

// TestNothingOfARequestActsOnTheTerminal: whatever stands in whichever field,
// what is shown is visible, and only our own line breaks break lines.
func TestNothingOfARequestActsOnTheTerminal(t *testing.T) {
	hostile := map[string]string{
		"escape": "\x1b[2J", "c1": "\u009b2J", "return": "a\rb", "bell": "\a", "backspace": "a\b", "del": "\x7f", "newline": "a\n  box other  approved",
		"right to left": "\u202eabc", "isolate": "\u2066a\u2069", "mark": "\u200f", "zero width": "a\u200bb", "joiner": "a\u200db", "bom": "\ufeff",
		"soft hyphen": "a\u00adb", "tag": "\U000e0041", "line separator": "a\u2028b", "no utf-8": "a\xffb", "nul": "a\x00",
	}
	for name, text := range hostile {
		for _, state := range []wire.ApprovalState{wire.Pending, wire.Expired} {
			for _, kind := range []string{"push", "land", "action"} {
				var a wire.Approval
				fill(reflect.ValueOf(&a).Elem(), text)
				a.State = state
				a.CreatedAt, a.Deadline = time.Unix(0, 0), time.Unix(60, 0)
				switch kind {
				case "push":
					a.Land, a.Action = nil, nil
				case "land":
					a.Push, a.Action = nil, nil
				case "action":
					a.Push, a.Land = nil, nil
				}
				var out bytes.Buffer
				Describe(&out, OfApproval(a), time.Unix(1, 0))
				shown := out.String()
				for line := range strings.SplitSeq(strings.TrimSuffix(shown, "\n"), "\n") {
					bad := func(r rune) bool {
						return r == unicode.ReplacementChar || !unicode.IsPrint(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
					}
					if strings.ContainsFunc(line, bad) || strings.HasPrefix(line, "  box other") {
						t.Errorf("%s in a %s: %q", name, kind, line)
					}
				}
				if strings.Contains(shown, text) {
					t.Errorf("%s in a %s is shown as it is", name, kind)
				}
			}
		}
	}
}
