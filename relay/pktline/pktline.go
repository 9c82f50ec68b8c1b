// Package pktline reads and writes git's pkt-line framing: four hex digits of
// length, then the data (gitprotocol-common(5)).
//
// Invariants:
//   - A Reader never reads past the packet that it returns, so what follows a
//     section of packets (a pack) is left in the stream.
//   - It never holds more than one packet, and stops at the bound it was given.
package pktline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxData is how many bytes of data one packet may carry
// (LARGE_PACKET_DATA_MAX of gitprotocol-common(5): 65520 less the length).
const MaxData = 65516

const header = 4

// Errors that callers branch on. Both are the sender's fault.
var (
	// ErrMalformed: the bytes are no packet.
	ErrMalformed = errors.New("malformed pkt-line")
	// ErrTooLong: the packets exceed the reader's bound.
	ErrTooLong = errors.New("too many bytes of pkt-lines")
)

// Kind tells data packets and the three special ones apart.
type Kind int

// The kinds of packet. Delim and End exist in protocol version 2 only.
const (
	Data Kind = iota
	Flush
	Delim
	End
)

// Packet is one packet. Data is valid until the next call of the reader.
type Packet struct {
	Kind Kind
	Data []byte
}

// Text is the data without one trailing line feed.
func (p Packet) Text() string { return string(bytes.TrimSuffix(p.Data, []byte("\n"))) }

// Reader reads packets, at most limit bytes of them in all.
type Reader struct {
	r    io.Reader
	left int64
	buf  []byte
}

// NewReader reads from r, which it never reads ahead of.
func NewReader(r io.Reader, limit int64) *Reader { return &Reader{r: r, left: limit} }

// Next reads one packet. A stream that ends between packets gives io.EOF, one
// that ends within a packet io.ErrUnexpectedEOF; other errors of the stream
// come through, and bad input wraps ErrMalformed or ErrTooLong.
func (r *Reader) Next() (Packet, error) {
	var raw [header]byte
	if _, err := io.ReadFull(r.r, raw[:]); err != nil {
		return Packet{}, err
	}
	n, ok := length(raw)
	switch {
	case !ok:
		return Packet{}, fmt.Errorf("%w: bad length %q", ErrMalformed, raw[:])
	case n == 3:
		return Packet{}, fmt.Errorf("%w: length 0003 is reserved", ErrMalformed)
	case n > header+MaxData:
		return Packet{}, fmt.Errorf("%w: length %d exceeds %d", ErrMalformed, n, header+MaxData)
	}
	if r.left -= int64(max(n, header)); r.left < 0 {
		return Packet{}, ErrTooLong
	}
	if n < header {
		return Packet{Kind: [...]Kind{Flush, Delim, End}[n]}, nil
	}
	if cap(r.buf) < n-header {
		r.buf = make([]byte, min(header+MaxData, 2*n))
	}
	data := r.buf[:n-header]
	if _, err := io.ReadFull(r.r, data); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Packet{}, err
	}
	return Packet{Data: data}, nil
}

// length decodes four lower-case hex digits, the only form that git writes.
func length(raw [header]byte) (int, bool) {
	n := 0
	for _, c := range raw {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | int(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | int(c-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}

// Writer writes packets, each with one Write of the stream below.
type Writer struct {
	w   io.Writer
	buf []byte
}

// NewWriter writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Data writes one packet. More than MaxData bytes are an error.
func (w *Writer) Data(data []byte) error { return w.packet(nil, data) }

// Printf writes one packet of formatted text.
func (w *Writer) Printf(format string, args ...any) error {
	return w.Data(fmt.Appendf(nil, format, args...))
}

// Flush writes a flush packet, "0000".
func (w *Writer) Flush() error { return w.raw("0000") }

// Delim writes a delimiter packet, "0001".
func (w *Writer) Delim() error { return w.raw("0001") }

func (w *Writer) raw(s string) error {
	_, err := io.WriteString(w.w, s)
	return err
}

func (w *Writer) packet(prefix, data []byte) error {
	n := len(prefix) + len(data)
	if n > MaxData {
		return fmt.Errorf("write a pkt-line: %d bytes exceed %d", n, MaxData)
	}
	w.buf = fmt.Appendf(w.buf[:0], "%04x", header+n)
	w.buf = append(append(w.buf, prefix...), data...)
	_, err := w.w.Write(w.buf)
	return err
}

// The bands of side-band-64k (gitprotocol-pack(5)).
const (
	BandData     = 1
	BandProgress = 2
	BandError    = 3
)

// Band is a stream inside packets: what is written to it goes out as packets
// of one side band, as many as needed.
func (w *Writer) Band(band byte) io.Writer { return bandWriter{w, band} }

type bandWriter struct {
	w    *Writer
	band byte
}

func (b bandWriter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		chunk := p[done:min(len(p), done+MaxData-1)]
		if err := b.w.packet([]byte{b.band}, chunk); err != nil {
			return done, err
		}
		done += len(chunk)
	}
	return done, nil
}
