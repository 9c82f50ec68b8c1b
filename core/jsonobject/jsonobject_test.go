package jsonobject_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/madarco/agentbox/core/jsonobject"
)

func TestOnlyWhatIsNamedChanges(t *testing.T) {
	t.Parallel()
	const before = `{"big": 12345678901234567890, "html": "<a&b>", "null": null, "deep": {"list": [1, {"x": 1.50}], "set": "old"}, "odd": "text"}`
	o, err := jsonobject.Parse([]byte(before))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		changed bool
		want    bool
	}{
		{"a new value", o.Set("new", "deep", "set"), true},
		{"the same again", o.Set("new", "deep", "set"), false},
		{"a preset that is there", o.Preset("x", "deep", "set"), false},
		{"a preset that is null", o.Preset("x", "null"), false},
		{"a preset that is not", o.Preset(true, "more", "new"), true},
		{"through a null", o.Set(true, "null", "inner"), true},
		{"through a text", o.Set(true, "odd", "inner"), false},
		{"a preset through a text", o.Preset(true, "odd", "inner"), false},
	} {
		if c.changed != c.want {
			t.Errorf("%s: changed %v", c.name, c.changed)
		}
	}
	text, err := o.Text()
	if err != nil {
		t.Fatal(err)
	}
	compact := strings.Join(strings.Fields(string(text)), "")
	if want := `{"big":12345678901234567890,"deep":{"list":[1,{"x":1.50}],"set":"new"},"html":"<a&b>","more":{"new":true},"null":{"inner":true},"odd":"text"}`; compact != want {
		t.Errorf("got  %s\nwant %s", compact, want)
	}
	if o.Get("deep", "set") != "new" || o.Get("odd", "inner") != nil || o.Get("none") != nil {
		t.Errorf("Get: %v", o)
	}
}

func TestWhatIsNoObjectIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"null", "[]", `"x"`, "{", "{} {}", "x"} {
		if o, err := jsonobject.Parse([]byte(text)); err == nil {
			t.Errorf("%s gives %v", text, o)
		}
	}
	for _, text := range []string{"", " \n", "{}"} {
		if o, err := jsonobject.Parse([]byte(text)); err != nil || len(o) != 0 || !o.Set(1, "a") {
			t.Errorf("%q gives %v, %v", text, o, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"a": {"b": [1, 2.0, null]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		o, err := jsonobject.Parse([]byte(text))
		if err != nil {
			return
		}
		out, err := o.Text()
		if err != nil || !json.Valid(out) {
			t.Errorf("%q becomes %q, %v", text, out, err)
		}
	})
}
