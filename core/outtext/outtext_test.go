package outtext

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
)

func TestTrouble(t *testing.T) {
	const value = "s3cr3t-value-of-a-box"
	for text, want := range map[string]string{
		"":                                     "",
		"Fixes the parser.\nSee src/a/b.go":    "",
		"write to a@b.example":                 "",
		"and/or, 1/2":                          "",
		"/deploy":                              Command,
		"ok\n  /merge now":                     Command,
		"ok\r/merge":                           Command,
		"ok\u2028/merge":                       Command,
		"\u200b/merge":                         Command,
		"thanks @bob":                          Mention,
		"@org/team":                            Mention,
		"(@bob)":                               Mention,
		"@\u200bbob":                           Mention,
		"\uff20bob":                            Mention,
		"ghp_" + strings.Repeat("a", 36):       Secret,
		"gh\u200bp_" + strings.Repeat("a", 36): Secret,
		"it is " + value:                       Known,
		"it is " + hex.EncodeToString([]byte(value)):                  Known,
		strings.ToUpper(hex.EncodeToString([]byte(value))):            Known,
		base64.StdEncoding.EncodeToString([]byte("x" + value + "yz")): Known,
	} {
		if got := Trouble(text, "", "short", value); got != want {
			t.Errorf("Trouble(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestValuesAreFoundInBase64AtAnyPlace(t *testing.T) {
	const value = "\xfb\xff-value-of-a-box"
	for before := range 7 {
		for after := range 7 {
			text := strings.Repeat("p", before) + value + strings.Repeat("q", after)
			for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
				wrapped := enc.EncodeToString([]byte(text))
				wrapped = wrapped[:9] + "\n" + wrapped[9:]
				if Trouble(wrapped, value) == "" {
					t.Errorf("%d before and %d after are missed: %s", before, after, wrapped)
				}
			}
		}
	}
}

func FuzzTrouble(f *testing.F) {
	f.Add("hello\n", "/x")
	f.Fuzz(func(t *testing.T, text, value string) {
		if len(value) >= minValue && Trouble(text+value, value) == "" {
			t.Errorf("%q is missed in %q", value, text+value)
		}
	})
}
