package wire

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestDecodeReadsABodyInOneWayOnly(t *testing.T) {
	for name, body := range map[string]string{
		"unknown key":        `{"method":"a","argv":["x"]}`,
		"repeated key":       `{"method":"a","method":"b"}`,
		"other case":         `{"Method":"a"}`,
		"case variant twice": `{"method":"a","METHOD":"b"}`,
		"trailing data":      `{"method":"a"} {}`,
		"not an object":      `["a"]`,
		"wrong type":         `{"method":7}`,
		"bad UTF-8":          "{\"method\":\"\xff\"}",
		"cut off":            `{"method":"a"`,
		"too deep":           `{"method":"a","params":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`,
		"repeated inside":    `{"method":"a","params":{"x":1,"X":2}}`,
	} {
		var r Request
		if err := Decode([]byte(body), &r); !errors.Is(err, ErrBadJSON) {
			t.Errorf("%s: Decode gave %v; want ErrBadJSON", name, err)
		}
	}
	var r Request
	if err := Decode([]byte(` {"method":"git.push","params":{"remote":"origin"}} `), &r); err != nil || r.Method != "git.push" {
		t.Errorf("Decode = %+v, %v", r, err)
	}
	if err := Decode(nil, &r); err != nil {
		t.Errorf("empty body: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"method":"a","params":{"x":[1,{"y":null}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r Request
		if err := Decode(body, &r); err != nil {
			return
		}
		if len(strings.TrimSpace(string(body))) > 0 && !json.Valid(body) {
			t.Fatalf("accepted %q", body)
		}
	})
}
