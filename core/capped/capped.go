// Package capped keeps the beginning of a text that may be of any length, such
// as what a program in a box prints.
//
// Invariants:
//   - A Buffer holds at most Max bytes, whatever the way they come in; the zero
//     value holds none.
//   - The writer is never told: a program whose output was refused would end.
package capped

// Buffer is a writer that keeps the first Max bytes and drops the rest. It
// embeds no bytes.Buffer, whose ReadFrom io.Copy would find and fill past Max.
type Buffer struct {
	// Max is in bytes.
	Max  int
	kept []byte
	cut  bool
}

// Write takes all of p and never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	n := min(len(p), max(0, b.Max-len(b.kept)))
	b.kept = append(b.kept, p[:n]...)
	b.cut = b.cut || n < len(p)
	return len(p), nil
}

// Bytes is what was kept. It is valid until the next Write.
func (b *Buffer) Bytes() []byte { return b.kept }

// String is what was kept.
func (b *Buffer) String() string { return string(b.kept) }

// Cut tells whether anything was dropped.
func (b *Buffer) Cut() bool { return b.cut }
