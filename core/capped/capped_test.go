package capped

import (
	"bytes"
	"io"
	"testing"
)

func TestBufferKeepsTheBeginning(t *testing.T) {
	for _, test := range []struct {
		name, want string
		max        int
		chunks     []string
		cut        bool
	}{
		{name: "nothing", max: 4},
		{name: "less than fits", max: 4, chunks: []string{"ab", "c"}, want: "abc"},
		{name: "just what fits", max: 4, chunks: []string{"ab", "cd"}, want: "abcd"},
		{name: "more in one piece", max: 4, chunks: []string{"abcdef"}, want: "abcd", cut: true},
		{name: "more in pieces", max: 4, chunks: []string{"abc", "def", "ghi"}, want: "abcd", cut: true},
		{name: "no room at all", chunks: []string{"a"}, cut: true},
		{name: "a bound below zero", max: -1, chunks: []string{"a"}, cut: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := Buffer{Max: test.max}
			for _, chunk := range test.chunks {
				if n, err := b.Write([]byte(chunk)); n != len(chunk) || err != nil {
					t.Errorf("Write(%q) = %d, %v", chunk, n, err)
				}
			}
			if b.String() != test.want || !bytes.Equal(b.Bytes(), []byte(test.want)) || b.Cut() != test.cut {
				t.Errorf("kept %q and %q, cut %v; want %q, %v", b.String(), b.Bytes(), b.Cut(), test.want, test.cut)
			}
		})
	}
}

// io.Copy, by which os/exec reads a program, prefers a ReadFrom to Write.
func TestCopyingKeepsTheBound(t *testing.T) {
	b := Buffer{Max: 10}
	if n, err := io.Copy(&b, io.LimitReader(endless{}, 1<<20)); n != 1<<20 || err != nil {
		t.Fatalf("Copy = %d, %v", n, err)
	}
	if len(b.Bytes()) != 10 || !b.Cut() {
		t.Errorf("kept %d bytes, cut %v; want 10, true", len(b.Bytes()), b.Cut())
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
