package relayenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadKeepsWhatFollowsTheFirstEqualsSignAndDropsCarriageReturns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.env")
	text := "AGENTBOX_RELAY_URL=http://127.0.0.1:1/?a=b=c\r\n AGENTBOX_RELAY_TOKEN = tok=en== \r\nAGENTBOX_BRIDGE_TOKEN=x\n# note\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{URL: "http://127.0.0.1:1/?a=b=c", Token: "tok=en=="}
	if len(got) != len(want) || got[URL] != want[URL] || got[Token] != want[Token] {
		t.Errorf("Read = %q, want %q", got, want)
	}
}

func TestLookupTakesEachHalfFromWhereItIsSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.env")
	t.Setenv("AGENTBOX_RELAY_ENV_FILE", path)
	t.Setenv(URL, "")
	t.Setenv(Token, "from-env")
	if got := Lookup(URL); got != "" {
		t.Errorf("URL without a file = %q, want none", got)
	}
	if err := Write(path, map[string]string{URL: "http://a", Token: "from-file"}); err != nil {
		t.Fatal(err)
	}
	if url, token := Lookup(URL), Lookup(Token); url != "http://a" || token != "from-env" {
		t.Errorf("URL, token = %q, %q; want the file's and the environment's", url, token)
	}
}

func TestWriteTightensTheModeOfAnExistingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.env")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, map[string]string{Token: "t"}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode = %o, want 600", got)
	}
	entries, _ := os.ReadDir(filepath.Dir(path))
	if len(entries) != 1 {
		t.Errorf("%d files beside it, want none left over", len(entries)-1)
	}
}

func TestWriteRefusesWhatTheFileMayNotHold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.env")
	for _, values := range []map[string]string{
		{"AGENTBOX_BRIDGE_TOKEN": "x"},
		{"PATH": "/tmp"},
		{Token: "a\nAGENTBOX_RELAY_URL=http://evil"},
		{Token: "a\r"},
	} {
		if err := Write(path, values); err == nil {
			t.Errorf("Write(%q) succeeded", values)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a refused write left a file")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("AGENTBOX_RELAY_URL=http://a\r\nX=1\n=\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name, value := range parse(text) {
			if strings.ContainsAny(value, "\n") || strings.TrimSpace(value) != value || name == "" {
				t.Errorf("parse(%q) gave %q=%q", text, name, value)
			}
		}
	})
}
