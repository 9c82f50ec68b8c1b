package modelserver

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

func commitScript(t testing.TB) Script {
	t.Helper()
	file, err := os.Open("testdata/commit.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	script, err := ParseScript(file)
	if err != nil {
		t.Fatal(err)
	}
	return script
}

func TestScriptsAreReadFromJSON(t *testing.T) {
	script := commitScript(t)
	if len(script) != 9 || script[5].Timeout != 60 || script[3].Edit.New != "wide\nworld" {
		t.Errorf("read %+v", script)
	}
}

func TestStepsThatAnAgentCannotTakeAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"no action":           {`[{}]`, "step 0 of the script: has 0 actions"},
		"two actions":         {`[{"finish":"a"},{"say":"a","run":"b"}]`, "step 1 of the script: has 2 actions"},
		"timeout alone":       {`[{"say":"a","timeout":3}]`, "timeout"},
		"negative timeout":    {`[{"run":"a","timeout":-3}]`, "timeout"},
		"absolute path":       {`[{"read":"/etc/passwd"}]`, `path "/etc/passwd" is not`},
		"path that leaves":    {`[{"read":"../x"}]`, "is not a clean path"},
		"path that wanders":   {`[{"read":"a/../x"}]`, "is not a clean path"},
		"path of two lines":   {`[{"write":{"path":"a\nb","content":""}}]`, "is not a clean path"},
		"no path":             {`[{"write":{"content":""}}]`, "is not a clean path"},
		"half a line":         {`[{"write":{"path":"a","content":"x"}}]`, "does not end in a line end"},
		"edit of nothing":     {`[{"edit":{"path":"a","old":"","new":"b"}}]`, "must be lines"},
		"edit of half a line": {`[{"edit":{"path":"a","old":"x\n","new":"b"}}]`, "must be lines"},
		"edit to the same":    {`[{"edit":{"path":"a","old":"b","new":"b"}}]`, "are the same"},
		"unknown word":        {`[{"shout":"a"}]`, "unknown field"},
		"no array":            {`{"say":"a"}`, "JSON array"},
		"two arrays":          {`[] []`, "text follows"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseScript(strings.NewReader(c.script))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func FuzzParseScript(f *testing.F) {
	f.Add(`[{"say":"a"},{"run":"b","timeout":1},{"finish":"c"}]`)
	f.Add(`[{"write":{"path":"a","content":"b\n"}},{"edit":{"path":"a","old":"b","new":"c"}},{"read":"a"}]`)
	f.Fuzz(func(t *testing.T, text string) {
		script, err := ParseScript(strings.NewReader(text))
		if err != nil {
			return
		}
		again, err := json.Marshal(script)
		if err != nil {
			t.Fatal(err)
		}
		same, err := ParseScript(strings.NewReader(string(again)))
		if err != nil || !slices.EqualFunc(script, same, func(a, b Step) bool { return string(encode(a)) == string(encode(b)) }) {
			t.Errorf("%s became %s, %v", text, again, err)
		}
	})
}
