package root

import (
	"fmt"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/madarco/agentbox/cli/internal/fail"
	"github.com/madarco/agentbox/core/policy"
	"github.com/madarco/agentbox/docs"
)

// TestTheDocumentationKnowsEveryCommand holds docs/commands.md to the tree.
func TestTheDocumentationKnowsEveryCommand(t *testing.T) {
	data, err := docs.Pages.ReadFile("commands.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	f, _, _ := bare(t)
	every(New(f, idle{}), func(c *cli.Command) {
		if len(c.Commands) == 0 && !strings.Contains(page, "`"+c.Name) && !strings.Contains(page, " "+c.Name+"`") && !strings.Contains(page, " "+c.Name+" ") {
			t.Errorf("no word of %s", c.Name)
		}
	})
	for _, c := range fail.Codes {
		if !strings.Contains(page, fmt.Sprintf("\n| %d | ", c.Code)) {
			t.Errorf("no word of exit code %d", c.Code)
		}
	}
	for _, class := range policy.Classes {
		if !strings.Contains(page, "| `"+string(class)+"` |") {
			t.Errorf("no word of class %s", class)
		}
	}
}
