// Command termsvg draws what terminals show as one SVG picture, for pages that
// are read on light and on dark ground.
//
//	tmux capture-pane -ep >host.txt
//	termsvg "on the host=host.txt" "in the box=box.txt" >session.svg
//
// Each argument is a window: its title and the file of its screen, text with
// the colours that tmux captures (ECMA-48, SGR). What else a terminal can be
// told is an error, so that nothing is drawn that was not on the screen.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "termsvg:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	windows := make([]window, 0, len(args))
	for _, arg := range args {
		title, file, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("read %q: it is no title=file", arg)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		w := window{title: title}
		if w.lines, err = parse(string(data)); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		windows = append(windows, w)
	}
	return draw(os.Stdout, windows)
}
