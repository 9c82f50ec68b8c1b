package packscan

import (
	"bytes"
	"errors"
	"hash"
	"io"
)

// source hands out the pack byte by byte, so that the inflater takes no more
// than it needs, hashes what was taken and passes it on, and counts it against
// the limit.
type source struct {
	r     io.Reader
	w     io.Writer
	hash  hash.Hash
	limit int64

	buf        [64 << 10]byte
	settled    int // buf[:settled] is in the hash and with w
	pos, end   int
	discounted int64 // bytes of earlier buffers
}

// sourceError keeps an error of the underlying reader apart from what an
// inflater makes of it.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// offset is how many bytes were taken.
func (s *source) offset() int64 { return s.discounted + int64(s.pos) }

func (s *source) fill() error {
	if err := s.settle(); err != nil {
		return err
	}
	s.discounted += int64(s.pos)
	s.settled, s.pos, s.end = 0, 0, 0
	for range 100 {
		n, err := s.r.Read(s.buf[:])
		s.end = n
		if got := s.discounted + int64(n); got > s.limit {
			return &BoundError{BoundPack, s.limit, got}
		}
		switch {
		case n > 0:
			return nil
		case errors.Is(err, io.EOF):
			return io.EOF
		case err != nil:
			return &sourceError{err}
		}
	}
	return &sourceError{io.ErrNoProgress}
}

// settle hashes and passes on what was taken since the last time. Whoever takes
// a byte judges it before taking the next, so all of it has been looked at.
func (s *source) settle() error {
	taken := s.buf[s.settled:s.pos]
	s.settled = s.pos
	s.hash.Write(taken)
	if _, err := s.w.Write(taken); err != nil {
		return &sourceError{err}
	}
	return nil
}

// ReadByte makes the inflater read exactly its own stream.
func (s *source) ReadByte() (byte, error) {
	if s.pos == s.end {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	c := s.buf[s.pos]
	s.pos++
	return c, nil
}

func (s *source) Read(p []byte) (int, error) {
	if s.pos == s.end {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.buf[s.pos:s.end])
	s.pos += n
	return n, nil
}

func (s *source) full(p []byte) error {
	if _, err := io.ReadFull(s, p); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		return noEOF(err)
	}
	return nil
}

func (s *source) skip(n int) error {
	var id [64]byte
	return s.full(id[:n])
}

// trailer compares the checksum that ends the pack and makes sure that
// nothing follows, before it passes the checksum on.
func (s *source) trailer() error {
	if err := s.settle(); err != nil {
		return err
	}
	want := s.hash.Sum(nil)
	w := s.w
	s.w = io.Discard
	got := make([]byte, len(want))
	if err := s.full(got); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return malformed("checksum does not match")
	}
	if _, err := s.ReadByte(); err == nil {
		return malformed("data after the pack")
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	_, err := w.Write(got)
	return err
}
