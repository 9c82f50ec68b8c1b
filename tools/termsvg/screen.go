package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// style is how a run of characters looks; colour is one of ECMA-48's 30 to 37
// and 90 to 97, 0 for the terminal's own.
type style struct {
	bold, dim bool
	colour    int
}

// piece is text of one style.
type piece struct {
	style

	text string
}

var sgr = regexp.MustCompile(`^\x1b\[([0-9;]*)m`)

// parse reads a captured screen. A style goes on over the end of a line; empty
// lines at the end are left out.
func parse(text string) ([][]piece, error) {
	var lines [][]piece
	var now style
	for n, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		var pieces []piece
		for line != "" {
			if m := sgr.FindStringSubmatch(line); m != nil {
				if err := now.apply(m[1]); err != nil {
					return nil, fmt.Errorf("line %d: %w", n+1, err)
				}
				line = line[len(m[0]):]
				continue
			}
			end := strings.IndexByte(line[1:], '\x1b') + 1
			if end == 0 {
				end = len(line)
			}
			plain := line[:end]
			if strings.ContainsFunc(plain, unicode.IsControl) {
				return nil, fmt.Errorf("line %d: a control that is no colour in %q", n+1, plain)
			}
			pieces, line = append(pieces, piece{now, plain}), line[end:]
		}
		lines = append(lines, pieces)
	}
	return lines, nil
}

func (s *style) apply(params string) error {
	for p := range strings.SplitSeq(params, ";") {
		code, _ := strconv.Atoi(p) // none is 0
		switch {
		case code == 0:
			*s = style{}
		case code == 1:
			s.bold = true
		case code == 2:
			s.dim = true
		case code == 22:
			s.bold, s.dim = false, false
		case code == 39:
			s.colour = 0
		case code == 49: // the terminal's own ground, which is the picture's
		case code >= 30 && code <= 37, code >= 90 && code <= 97:
			s.colour = code
		default:
			return fmt.Errorf("style %d is not one that is drawn", code)
		}
	}
	return nil
}
