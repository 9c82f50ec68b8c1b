package gitgate

import (
	"bytes"
	"errors"
	"strings"
)

// items splits output that -z ends with NUL.
func items(out []byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(out) > 0 {
			item, rest, _ := bytes.Cut(out, []byte{0})
			if !yield(string(item)) {
				return
			}
			out = rest
		}
	}
}

var errGitOutput = errors.New("git printed something unexpected")

// parseIndex reads "mode id stage\tpath".
func parseIndex(line string) (e entry, stage string, err error) {
	meta, path, ok := strings.Cut(line, "\t")
	f := strings.Fields(meta)
	if !ok || len(f) != 3 {
		return e, "", errGitOutput
	}
	return entry{f[0], f[1], path}, f[2], nil
}

// rawItems reads `--raw -z` output without renames.
func rawItems(out []byte, each func(status byte, path string)) error {
	head := ""
	for item := range items(out) {
		if head == "" {
			head = item
			continue
		}
		each(head[len(head)-1], item)
		head = ""
	}
	if head != "" {
		return errGitOutput
	}
	return nil
}
