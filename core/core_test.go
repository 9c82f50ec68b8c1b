package core

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

func TestBranchNameRefusesWhatCouldBeReadAsSomethingElse(t *testing.T) {
	for _, name := range []string{
		"", "-x", "--upload-pack=id", ".x", "/x", "a..b", "a b", "a\nb", "a@{0}", "a//b", "a/", "a.lock", "a.lock/b", "a/.b", "a.", "HEAD", "refs/heads/main", "Refs/x",
		"a:b", "a^b", "a~1", "a*", "a[b", "a\\b", "+a", "ä", strings.Repeat("a", 101),
	} {
		if got, err := ParseBranchName(name); err == nil {
			t.Errorf("ParseBranchName(%q) = %q; want an error", name, got)
		} else if !errors.Is(err, ErrInvalid) {
			t.Errorf("ParseBranchName(%q): %v does not wrap ErrInvalid", name, err)
		}
	}
	for _, name := range []string{"main", "agentbox/web-2", "release/1.2.x", "a_b-c", strings.Repeat("a", 100)} {
		if _, err := ParseBranchName(name); err != nil {
			t.Errorf("ParseBranchName(%q): %v", name, err)
		}
	}
}

func TestValidatedTypesAreCheckedWhenDecoded(t *testing.T) {
	for _, body := range []string{`{"branch":"--x"}`, `{"remote":"-o"}`, `{"containerPath":"../x"}`, `{"baseOid":"main"}`} {
		var r Repo
		if err := json.Unmarshal([]byte(body), &r); err == nil {
			t.Errorf("decoding %s succeeded; want an error", body)
		}
	}
	var b Box
	if err := json.Unmarshal([]byte(`{"name":"Not A Name"}`), &b); err == nil {
		t.Error("decoding a box with a bad name succeeded")
	}
}

func TestObjectIDs(t *testing.T) {
	for _, ok := range []string{strings.Repeat("a1", 20), strings.Repeat("0", 64)} {
		if _, err := ParseObjectID(ok); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "HEAD", strings.Repeat("A", 40), strings.Repeat("a", 39), strings.Repeat("a", 41)} {
		if _, err := ParseObjectID(bad); err == nil {
			t.Errorf("ParseObjectID(%q) succeeded", bad)
		}
	}
	if !ZeroID(40).IsZero() || ObjectID(strings.Repeat("a", 40)).IsZero() || !ObjectID("").IsZero() {
		t.Error("IsZero is wrong")
	}
}

func TestBoxNames(t *testing.T) {
	for folder, want := range map[string]BoxName{
		"Shop": "shop", "my app": "my-app", "日本": "box", "": "box", "agentbox": "box", "..": "box", "--x--": "x",
		strings.Repeat("a", 60): BoxName(strings.Repeat("a", 40)),
	} {
		if got := BoxNameFor(folder); got != want {
			t.Errorf("BoxNameFor(%q) = %q; want %q", folder, got, want)
		}
	}
	long := BoxName(strings.Repeat("a", 40))
	if got := long.Numbered(12); len(got) != 40 || !strings.HasSuffix(string(got), "-12") {
		t.Errorf("Numbered(12) = %q", got)
	}
	if got := BoxName("web").Numbered(1); got != "web" {
		t.Errorf("Numbered(1) = %q", got)
	}
	for _, bad := range []string{"", "-a", "a-", "A", "a_b", "hub", "localhost", "agentbox", strings.Repeat("a", 41)} {
		if _, err := ParseBoxName(bad); err == nil {
			t.Errorf("ParseBoxName(%q) succeeded", bad)
		}
	}
}

func TestPathsBelongToTheDeepestRepository(t *testing.T) {
	for _, order := range [][]Repo{
		{{Key: "A", BoxPath: "/workspace"}, {Key: "B", BoxPath: "/workspace/lib"}},
		{{Key: "B", BoxPath: "/workspace/lib"}, {Key: "A", BoxPath: "/workspace"}},
	} {
		box := Box{Repos: order}
		for dir, want := range map[string]string{
			"/workspace/lib/x": "B", "/workspace/lib": "B", "/workspace/library": "A", "/workspace/lib/../x": "A",
			"/workspace/": "A", "/workspace/../etc": "", "/etc": "", "/workspaces": "", "": "A", "lib/x": "",
		} {
			got, ok := box.RepoAt(dir)
			if got.Key != want || ok != (want != "") {
				t.Errorf("RepoAt(%q) = %q, %v; want %q", dir, got.Key, ok, want)
			}
		}
	}
}

func TestFilesThatLookSecret(t *testing.T) {
	for _, name := range []string{
		".env", ".envrc", ".env-prod", ".env.local", ".ENV", ".git-credentials", ".docker/config.json", ".kube/config", ".claude/.credentials.json",
		".pypirc", "id_ed25519_work", "deploy/id_rsa", "service-account.json", "x/.config/gh/hosts.yml", "tls/Server.KEY", "infra.tfstate", ".bash_history",
	} {
		if !LooksSecret(name) {
			t.Errorf("LooksSecret(%q) = false", name)
		}
	}
	for _, name := range []string{"README.md", "id_ed25519.pub", ".env.example", "keys.go", "src/environment.ts", "docs/credentials.md"} {
		if LooksSecret(name) {
			t.Errorf("LooksSecret(%q) = true", name)
		}
	}
}

func TestQuoteShowsWhatWouldDeceive(t *testing.T) {
	for in, want := range map[string]string{
		"plain text":     `"plain text"`,
		"a\x1b[2Kb":      `"a\u001b[2Kb"`,
		"a\rb\nc\td":     `"a\u000db\nc\td"`,
		"\u202eevil":     `"\u202eevil"`,
		"zero\u200bw":    `"zero\u200bw"`,
		"nb\u00a0sp":     `"nb\u00a0sp"`,
		"c1\u009b31m":    `"c1\u009b31m"`,
		"bad\xffutf":     `"bad\xffutf"`,
		`say "x" \ y`:    `"say \"x\" \\ y"`,
		"日本 é":           `"日本 é"`,
		"tag\U000e0041x": `"tag\U000e0041x"`,
	} {
		if got := Untrusted(in).Quote(); got != want {
			t.Errorf("Quote(%q) = %s; want %s", in, got, want)
		}
	}
	if got := Untrusted("abcdef").QuoteMax(3); got != `"abc" (+3 more)` {
		t.Errorf("QuoteMax(3) = %s", got)
	}
}

func FuzzQuote(f *testing.F) {
	f.Add("a\x1b]52;c;x\x07", 10)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit %= 300
		if limit < 0 {
			limit = -limit
		}
		got := Untrusted(s).QuoteMax(limit)
		for _, r := range got {
			if !unicode.IsGraphic(r) || unicode.In(r, unicode.Cf, unicode.Cc) {
				t.Fatalf("QuoteMax(%q) holds %U", s, r)
			}
		}
		if !strings.HasPrefix(got, `"`) {
			t.Fatalf("QuoteMax(%q) = %s", s, got)
		}
	})
}

func FuzzBranchName(f *testing.F) {
	f.Add("agentbox/web")
	f.Fuzz(func(t *testing.T, s string) {
		b, err := ParseBranchName(s)
		if err != nil {
			return
		}
		if strings.ContainsAny(string(b), " \n\x00:^~*?[\\@{+") || strings.HasPrefix(string(b), "-") || strings.Contains(string(b), "..") {
			t.Fatalf("accepted %q", s)
		}
	})
}

func TestHomeIsClosedAndShortEnoughForSockets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "h")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Home(dir).Create(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("mode %v, %v; want 0700", info.Mode(), err)
	}
	t.Setenv("AGENTBOX_HOME", "/"+strings.Repeat("x", 100))
	if _, err := DefaultHome(); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Fatalf("a long home gave %v; want advice to shorten it", err)
	}
}
