// Package packscan decodes a git pack as it streams by, before git reads a
// byte of it, and refuses what would cost the host too much: git's own checks
// bound neither the size nor the number of what a pack unfolds to.
//
// Invariants:
//   - Memory is bounded by Limits.Objects, whatever the pack says.
//   - Copy passes on no byte that has not been looked at, and the checksum at
//     the end only when all before it was right.
//   - No byte is inflated beyond what an object declared, and nothing is
//     declared beyond the limits.
//   - A pack that passes is one whole pack with nothing behind it.
//
// The format is gitformat-pack(5), versions 2 and 3.
package packscan

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // the pack trailer's checksum, no secret
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"sort"
)

// ErrMalformed is wrapped when the bytes are no valid pack.
var ErrMalformed = errors.New("malformed pack")

// Limits bound a pack. A pack at a limit passes.
type Limits struct {
	// Objects counts objects.
	Objects int64
	// ObjectBytes bounds one object, inflated, and what a delta makes.
	ObjectBytes int64
	// InflatedBytes bounds the sum over all objects of the larger of both.
	InflatedBytes int64
	// PackBytes bounds the pack itself.
	PackBytes int64
	// Ratio bounds inflated over packed bytes, once ratioFloor is inflated.
	Ratio int64
	// DeltaDepth bounds a chain of deltas that point back in the pack.
	DeltaDepth int64
}

// Defaults are what a landing or push may hold without a question.
var Defaults = Limits{
	Objects:       200_000,
	ObjectBytes:   100 << 20,
	InflatedBytes: 2 << 30,
	PackBytes:     256 << 20,
	Ratio:         200,
	DeltaDepth:    4095, // the deepest chain that git itself writes
}

// Raised are the limits for packs of so many bytes: what is in one may be as
// large, too. Zero, or less than before, changes the size of the pack alone.
func (l Limits) Raised(packBytes int64) Limits {
	if packBytes == 0 {
		return l
	}
	l.PackBytes = packBytes
	if packBytes > Defaults.PackBytes {
		l.ObjectBytes = max(l.ObjectBytes, packBytes)
		l.InflatedBytes = max(l.InflatedBytes, packBytes/Defaults.PackBytes*Defaults.InflatedBytes)
	}
	return l
}

// Ceiling is what no pack may exceed, whoever is asked: memory and processor
// time of all who read it are sized by it.
var Ceiling = Limits{
	Objects:       1_000_000,
	ObjectBytes:   4 << 30,
	InflatedBytes: 8 << 30,
	PackBytes:     4 << 30,
	Ratio:         200,
	DeltaDepth:    4095,
}

// ratioFloor is below what Limits.Ratio is not judged: small packs of
// repetitive text reach any ratio and cost nothing.
const ratioFloor = 64 << 20

// Bound names one of the limits.
type Bound string

// The bounds, in words that complete "the pack has too many/much …".
const (
	BoundObjects  Bound = "objects"
	BoundObject   Bound = "bytes in one object"
	BoundInflated Bound = "bytes inflated"
	BoundPack     Bound = "bytes"
	BoundRatio    Bound = "times its size inflated"
	BoundDepth    Bound = "deltas in one chain"
)

// BoundError says which limit a pack exceeds.
type BoundError struct {
	Bound Bound
	Limit int64
	// Got is what the pack declares or has shown so far.
	Got int64
}

func (e *BoundError) Error() string {
	return fmt.Sprintf("the pack is over a bound: %d %s, at most %d are taken", e.Got, e.Bound, e.Limit)
}

// Result describes a pack that passed.
type Result struct {
	Objects  int64
	Largest  int64 // bytes of the largest object, inflated
	Inflated int64
	Bytes    int64
}

// Over is the first of the limits that the pack exceeds, nil if none. What a
// pack must not exceed at all stands in the limits of Scan.
func (r Result) Over(l Limits) *BoundError {
	for _, b := range []BoundError{
		{BoundPack, l.PackBytes, r.Bytes},
		{BoundObject, l.ObjectBytes, r.Largest},
		{BoundInflated, l.InflatedBytes, r.Inflated},
		{BoundObjects, l.Objects, r.Objects},
	} {
		if b.Got > b.Limit {
			return &b
		}
	}
	return nil
}

// Scan reads one pack whose ids have the given object format, "sha1" or
// "sha256", to the end of r. Errors are those of r, or wrap ErrMalformed, or
// are a *BoundError.
func Scan(r io.Reader, objectFormat string, limits Limits) (Result, error) {
	return Copy(io.Discard, r, objectFormat, limits)
}

// Copy is Scan that passes the pack on to w. What w has when an error is
// returned is no whole pack. Errors of w are returned as they are.
func Copy(w io.Writer, r io.Reader, objectFormat string, limits Limits) (Result, error) {
	h, err := newHash(objectFormat)
	if err != nil {
		return Result{}, err
	}
	s := &scanner{src: source{r: r, w: w, hash: h, limit: limits.PackBytes}, limits: limits}
	if err := s.pack(); err != nil {
		return Result{}, err
	}
	return Result{Objects: int64(len(s.starts)), Largest: s.largest, Bytes: s.src.offset(), Inflated: s.inflated}, nil
}

func newHash(objectFormat string) (hash.Hash, error) {
	switch objectFormat {
	case "sha1":
		return sha1.New(), nil //nolint:gosec // see the import
	case "sha256":
		return sha256.New(), nil
	}
	return nil, fmt.Errorf("object format %q: %w", objectFormat, errors.ErrUnsupported)
}

type scanner struct {
	src      source
	limits   Limits
	inflate  io.ReadCloser
	inflated int64
	largest  int64
	// starts, sizes and depths describe the objects so far, by position.
	starts []int64
	sizes  []int64
	depths []int32
}

const (
	typeOfsDelta = 6
	typeRefDelta = 7
)

func (s *scanner) pack() error {
	var head [12]byte
	if err := s.src.full(head[:]); err != nil {
		return err
	}
	version, count := binary.BigEndian.Uint32(head[4:]), int64(binary.BigEndian.Uint32(head[8:]))
	switch {
	case string(head[:4]) != "PACK":
		return malformed("no pack signature")
	case version != 2 && version != 3:
		return malformed("unknown version")
	case count > s.limits.Objects:
		return &BoundError{BoundObjects, s.limits.Objects, count}
	}
	for range count {
		if err := s.object(); err != nil {
			return err
		}
	}
	return s.src.trailer()
}

// object reads one entry: type and size, a delta's base, and the zlib stream.
func (s *scanner) object() error {
	start := s.src.offset()
	kind, size, err := s.entryHeader()
	if err != nil {
		return err
	}
	baseSize, depth := int64(-1), int32(0)
	switch kind {
	case 1, 2, 3, 4:
	case typeOfsDelta:
		i, err := s.base(start)
		if err != nil {
			return err
		}
		baseSize, depth = s.sizes[i], s.depths[i]+1
	case typeRefDelta:
		if err := s.src.skip(s.src.hash.Size()); err != nil {
			return err
		}
	default:
		return malformed("unknown object type")
	}
	if int64(depth) > s.limits.DeltaDepth {
		return &BoundError{BoundDepth, s.limits.DeltaDepth, int64(depth)}
	}
	if err := s.charge(size); err != nil {
		return err
	}
	made := size
	judge := func([]byte) error { return nil }
	if kind == typeOfsDelta || kind == typeRefDelta {
		judge = func(begin []byte) (err error) {
			made, err = s.deltaResult(begin, size, baseSize)
			return err
		}
	}
	if err := s.body(size, judge); err != nil {
		return err
	}
	s.starts, s.sizes, s.depths = append(s.starts, start), append(s.sizes, made), append(s.depths, depth)
	return nil
}

// entryHeader reads the type and the declared size of an entry.
func (s *scanner) entryHeader() (kind byte, size int64, err error) {
	c, err := s.src.ReadByte()
	if err != nil {
		return 0, 0, noEOF(err)
	}
	kind, size = c>>4&7, int64(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = s.src.ReadByte(); err != nil {
			return 0, 0, noEOF(err)
		}
		if shift > 53 {
			return 0, 0, malformed("object size out of range")
		}
		size |= int64(c&0x7f) << shift
	}
	return kind, size, nil
}

// base finds the entry that an offset delta at start refers to.
func (s *scanner) base(start int64) (int, error) {
	var back int64
	for n := 0; ; n++ {
		c, err := s.src.ReadByte()
		if err != nil {
			return 0, noEOF(err)
		}
		back |= int64(c & 0x7f)
		if c&0x80 == 0 {
			break
		}
		if n == 7 {
			return 0, malformed("delta offset out of range")
		}
		back = (back + 1) << 7
	}
	want := start - back
	i := sort.Search(len(s.starts), func(i int) bool { return s.starts[i] >= want })
	if i == len(s.starts) || s.starts[i] != want {
		return 0, malformed("delta offset points at no object")
	}
	return i, nil
}

// charge books size bytes before they are inflated or made.
func (s *scanner) charge(size int64) error {
	if size > s.limits.ObjectBytes {
		return &BoundError{BoundObject, s.limits.ObjectBytes, size}
	}
	s.largest = max(s.largest, size)
	if s.inflated += size; s.inflated > s.limits.InflatedBytes {
		return &BoundError{BoundInflated, s.limits.InflatedBytes, s.inflated}
	}
	return nil
}

// deltaHeader is room for the two sizes that open a delta.
const deltaHeader = 20

// body inflates exactly size bytes and lets judge look at the first few of
// them, before it takes what follows.
func (s *scanner) body(size int64, judge func(begin []byte) error) error {
	packed := s.src.offset()
	if err := s.reset(); err != nil {
		return err
	}
	begin := make([]byte, min(size, deltaHeader))
	if _, err := io.ReadFull(s.inflate, begin); err != nil {
		return inflateError(err)
	}
	if err := judge(begin); err != nil {
		return err
	}
	rest := size - int64(len(begin))
	if n, err := io.CopyN(io.Discard, s.inflate, rest); err != nil || n != rest {
		return inflateError(err)
	}
	// One more read must find the end; it also verifies the checksum.
	if n, err := s.inflate.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return inflateError(err)
	}
	packed = max(s.src.offset()-packed, 1)
	if size > ratioFloor && size/packed > s.limits.Ratio {
		return &BoundError{BoundRatio, s.limits.Ratio, size / packed}
	}
	return nil
}

func (s *scanner) reset() error {
	var err error
	if s.inflate == nil {
		s.inflate, err = zlib.NewReader(&s.src)
	} else {
		err = s.inflate.(zlib.Resetter).Reset(&s.src, nil)
	}
	if err != nil {
		return inflateError(err)
	}
	return nil
}

// inflateError keeps the bound that the source may have hit; whatever else
// the inflater says means that the stream is not what was declared.
func inflateError(err error) error {
	var bound *BoundError
	var src *sourceError
	switch {
	case errors.As(err, &bound):
		return bound
	case errors.As(err, &src):
		return src.err
	}
	return malformed("object does not inflate to its declared size")
}

// deltaResult reads the sizes at the head of a delta of size bytes, compares
// the first with the base where that is known (-1 if not), and books the second.
func (s *scanner) deltaResult(begin []byte, size, baseSize int64) (int64, error) {
	in := bytes.NewReader(begin)
	from, err := deltaSize(in)
	if err != nil {
		return 0, err
	}
	result, err := deltaSize(in)
	if err != nil {
		return 0, err
	}
	if baseSize >= 0 && from != baseSize {
		return 0, malformed("delta does not fit its base")
	}
	if result > s.limits.ObjectBytes {
		return 0, &BoundError{BoundObject, s.limits.ObjectBytes, result}
	}
	s.largest = max(s.largest, result)
	return result, s.charge(max(result-size, 0))
}

func deltaSize(in *bytes.Reader) (int64, error) {
	v, err := binary.ReadUvarint(in)
	if err != nil || v > 1<<60 {
		return 0, malformed("bad delta header")
	}
	return int64(v), nil
}

func malformed(why string) error { return fmt.Errorf("%w: %s", ErrMalformed, why) }

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return malformed("it ends early")
	}
	return err
}
