package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "draw the pictures of the documentation anew")

// TestThePictureIsWhatWasCaptured draws the README's picture from the screens
// beside it.
func TestThePictureIsWhatWasCaptured(t *testing.T) {
	images := filepath.Join("..", "..", "docs", "images")
	var windows []window
	for _, w := range []struct{ title, file string }{
		{"on the host: make a box", "1-create.txt"},
		{"in the box: the agent commits and pushes", "2-push.txt"},
		{"on the host: the commits are there; the push to main waited for this answer", "3-answer.txt"},
	} {
		data, err := os.ReadFile(filepath.Join(images, w.file))
		if err != nil {
			t.Fatal(err)
		}
		lines, err := parse(string(data))
		if err != nil {
			t.Fatalf("%s: %v", w.file, err)
		}
		windows = append(windows, window{w.title, lines})
	}
	var got bytes.Buffer
	if err := draw(&got, windows); err != nil {
		t.Fatal(err)
	}
	picture := filepath.Join(images, "session.svg")
	if *update {
		if err := os.WriteFile(picture, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(picture)
	if err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s is not what the captures show (%v); go test ./tools/termsvg -update draws it", picture, err)
	}
}

func TestScreensAreReadWithTheirStyles(t *testing.T) {
	got, err := parse("$ \x1b[1;32mok\x1b[0m\x1b[2m 1s\nstill dim\x1b[22m\x1b[91m!\x1b[39m\n\n\n")
	if err != nil {
		t.Fatal(err)
	}
	want := [][]piece{
		{{text: "$ "}, {style{bold: true, colour: 32}, "ok"}, {style{dim: true}, " 1s"}},
		{{style{dim: true}, "still dim"}, {style{colour: 91}, "!"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
}

func TestWhatIsNoColourIsAnError(t *testing.T) {
	for _, text := range []string{"\x1b[2J", "a\x1b[5mb", "a\rb", "\x1b]0;title\a", "\x1b", "\u009b31m"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q is drawn", text)
		}
	}
}

func TestTextIsTextInThePicture(t *testing.T) {
	var b bytes.Buffer
	if err := draw(&b, []window{{`a <"title"> & more`, [][]piece{{{text: `</text><script>"x" & 'y'`}}}}}); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for d := xml.NewDecoder(&b); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.CharData:
			text.Write(bytes.TrimSpace(token))
		case xml.StartElement:
			if token.Name.Local == "script" {
				t.Error("text became an element")
			}
		}
	}
	if want := `a <"title"> & more</text><script>"x" & 'y'`; text.String() != want {
		t.Errorf("the picture says %q; want %q", text.String(), want)
	}
}

func TestWindowsHaveATitleAndAFile(t *testing.T) {
	for _, arg := range []string{"no-file", "title=" + filepath.Join(t.TempDir(), "missing")} {
		if err := run([]string{arg}); err == nil {
			t.Errorf("%q is taken", arg)
		}
	}
}
