// Package docs is the documentation, embedded so that a test can hold it
// against the tree and the command can show it.
//
// Invariant: every relative link in a page leads to a file of the tree.
package docs

import "embed"

// Pages are the Markdown files of this folder.
//
//go:embed *.md
var Pages embed.FS
