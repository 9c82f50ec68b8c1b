package complete

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/madarco/agentbox/cli/internal/output"
)

//go:embed shells
var shells embed.FS

// Shells are the names of the shells that Script knows.
var Shells = []string{"bash", "zsh", "fish"}

// Script is what a shell reads to complete lines of agentbox; false if the
// shell is not known.
func Script(shell string) (string, bool) {
	if !slices.Contains(Shells, shell) {
		return "", false
	}
	text, err := shells.ReadFile("shells/agentbox." + shell)
	return string(text), err == nil
}

// Write writes the candidates as the scripts read them.
func Write(w io.Writer, all []Candidate) error {
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintf(&b, "%s\t%s\n", c.Word, strings.ReplaceAll(output.Line(c.Means), "\t", " "))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write what may come next: %w", err)
	}
	return nil
}
