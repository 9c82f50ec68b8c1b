package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

func TestRelativeLinksLeadSomewhere(t *testing.T) {
	pages, err := fs.Glob(Pages, "*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("pages = %v, %v", pages, err)
	}
	for _, page := range pages {
		text, err := fs.ReadFile(Pages, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.FromSlash(m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
		if !strings.HasPrefix(string(text), "# ") {
			t.Errorf("%s has no title", page)
		}
	}
}
