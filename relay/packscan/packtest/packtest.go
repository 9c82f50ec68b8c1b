// Package packtest builds packs for tests, honest ones and others: what git's
// own tools would never write can be written with it, byte by byte.
package packtest

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // the format's hash
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
)

// Kind is the type of an object in a pack (gitformat-pack(5)).
type Kind byte

// The kinds of object.
const (
	Commit   Kind = 1
	Tree     Kind = 2
	Blob     Kind = 3
	OfsDelta Kind = 6
	RefDelta Kind = 7
)

func (k Kind) String() string {
	return map[Kind]string{Commit: "commit", Tree: "tree", Blob: "blob"}[k]
}

// Pack is a pack that is being written.
type Pack struct {
	bytes.Buffer
	format string
	zlib   *zlib.Writer // one for all objects: it weighs most of a megabyte
}

// New starts a pack of an object format that says it holds count objects.
func New(format string, count uint32) *Pack {
	p := &Pack{format: format}
	p.WriteString("PACK")
	p.Write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 2), count))
	return p
}

// Head writes the header of an object that says it has size bytes.
func (p *Pack) Head(kind Kind, size uint64) *Pack {
	c := byte(kind)<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		p.WriteByte(c | 0x80)
		c = byte(size & 0x7f)
	}
	p.WriteByte(c)
	return p
}

// Deflate writes an object's content.
func (p *Pack) Deflate(body []byte) *Pack {
	w := p.deflater()
	_, _ = w.Write(body)
	_ = w.Close()
	return p
}

// Zeros deflates n zero bytes without holding them.
func (p *Pack) Zeros(n int64) *Pack {
	w := p.deflater()
	_, _ = io.CopyN(w, zero{}, n)
	_ = w.Close()
	return p
}

func (p *Pack) deflater() *zlib.Writer {
	if p.zlib == nil {
		p.zlib = zlib.NewWriter(p)
	} else {
		p.zlib.Reset(p)
	}
	return p.zlib
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Raw writes bytes as they are.
func (p *Pack) Raw(b ...byte) *Pack { p.Write(b); return p }

// Seal is the whole pack with its checksum.
func (p *Pack) Seal() []byte {
	h := newHash(p.format)
	h.Write(p.Bytes())
	return h.Sum(p.Bytes())
}

func newHash(format string) hash.Hash {
	if format == "sha256" {
		return sha256.New()
	}
	return sha1.New() //nolint:gosec // the format's hash
}

// Delta is the content of a delta between objects of these sizes.
func Delta(from, to uint64, ops ...byte) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, from), to), ops...)
}

// Object is an object of SHA-1 repositories, whatever git thinks of it.
type Object struct {
	Kind Kind
	Body []byte
}

// ID is the object's name.
func (o Object) ID() string { return hex.EncodeToString(o.Sum()) }

// Sum is the object's name in bytes.
func (o Object) Sum() []byte {
	h := newHash("sha1")
	fmt.Fprintf(h, "%s %d\x00", o.Kind, len(o.Body))
	h.Write(o.Body)
	return h.Sum(nil)
}

// Entry is one entry of a raw tree.
func Entry(mode, name string, o Object) string { return mode + " " + name + "\x00" + string(o.Sum()) }

// Of packs whole objects.
func Of(objects ...Object) []byte {
	p := New("sha1", uint32(len(objects))) //nolint:gosec // a test has fewer
	for _, o := range objects {
		p.Head(o.Kind, uint64(len(o.Body))).Deflate(o.Body)
	}
	return p.Seal()
}
