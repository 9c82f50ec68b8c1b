package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// window is one terminal of the picture.
type window struct {
	title string
	lines [][]piece
}

// Measures in pixels. A character of a fixed-width face is about 0.6 of its
// size wide; each piece is told its length, so that another face fits too.
const (
	size    = 14
	advance = 8.4
	leading = 20
	margin  = 16
	bar     = 30
	gap     = 14
)

// The ground is the picture's own, so it reads the same on any page.
const (
	ground = "#1c2128"
	edge   = "#444c56"
	ink    = "#d7dde4"
	faint  = "#8b949e"
)

// colours are those of ECMA-48 by their number, readable on ground.
var colours = map[int]string{
	30: "#768390", 31: "#f47067", 32: "#6bc46d", 33: "#daaa3f", 34: "#6cb6ff", 35: "#dcbdfb", 36: "#76d6e0", 37: ink,
	90: "#8b949e", 91: "#ff938a", 92: "#8ddb8c", 93: "#eac55f", 94: "#96d0ff", 95: "#eedcfe", 96: "#a5e8ef", 97: "#ffffff",
}

// draw puts the windows under each other, all as wide as the widest line.
func draw(out io.Writer, windows []window) error {
	columns, height := 0, 0
	for _, w := range windows {
		for _, l := range w.lines {
			n := 0
			for _, p := range l {
				n += utf8.RuneCountInString(p.text)
			}
			columns = max(columns, n)
		}
		height += w.height() + gap
	}
	width := int(float64(columns)*advance) + 2*margin
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" role="img" font-size="%d" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace">`+"\n",
		width, height-gap, width, size)
	top := 0
	for _, w := range windows {
		w.draw(&b, top, width)
		top += w.height() + gap
	}
	b.WriteString("</svg>\n")
	_, err := out.Write(b.Bytes())
	return err
}

func (w window) height() int { return bar + len(w.lines)*leading + margin }

func (w window) draw(b *bytes.Buffer, top, width int) {
	fmt.Fprintf(b, `<rect x="0.5" y="%d.5" width="%d" height="%d" rx="8" fill="%s" stroke="%s"/>`+"\n", top, width-1, w.height()-1, ground, edge)
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", margin, top+20, faint, escape(w.title))
	for i, line := range w.lines {
		column := 0
		for _, p := range line {
			n := utf8.RuneCountInString(p.text)
			if strings.TrimSpace(p.text) != "" {
				fmt.Fprintf(b, `<text x="%.1f" y="%d" textLength="%.1f" xml:space="preserve" fill="%s"%s>%s</text>`+"\n",
					margin+float64(column)*advance, top+bar+(i+1)*leading-6, float64(n)*advance, p.fill(), p.weight(), escape(p.text))
			}
			column += n
		}
	}
}

func (s style) fill() string {
	switch {
	case s.dim:
		return faint
	case s.colour != 0:
		return colours[s.colour]
	}
	return ink
}

func (s style) weight() string {
	if s.bold {
		return ` font-weight="bold"`
	}
	return ""
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder takes all
	return b.String()
}
