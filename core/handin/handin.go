// Package handin is the stream by which a box gives its commits to the host
// when no daemon in it can push them: `agentbox-ctl land --stdout` writes it,
// the host reads it from the exec.
//
// The form is an 8-byte magic, one length-prefixed JSON Header (32-bit
// big-endian), and for each tip a git pack as a section of package core/setup.
//
// Invariant: the host takes nothing from it but claims. The header is capped,
// decoded strictly and holds validated types only; whoever reads a pack caps it
// and passes it through the gate.
package handin

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
)

const (
	magic     = "abxland1"
	maxHeader = 64 << 10
	maxTips   = 64
)

// ErrBadStream is wrapped by every refusal of ReadHeader.
var ErrBadStream = errors.New("the box's hand-in is malformed")

// Header opens the stream.
type Header struct {
	Tips []Tip `json:"tips"`
}

// Tip is one branch that the box hands in; its pack holds what the commit needs
// beyond the one that the box started from.
type Tip struct {
	RepoKey string          `json:"repoKey"`
	Branch  core.BranchName `json:"branch"`
	OID     core.ObjectID   `json:"oid"`
}

// WriteHeader begins the stream.
func WriteHeader(w io.Writer, h Header) error {
	body, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode the hand-in: %w", err)
	}
	if len(body) > maxHeader || len(h.Tips) > maxTips {
		return fmt.Errorf("hand in %d branches: more than a stream holds", len(h.Tips))
	}
	if _, err := w.Write(append(binary.BigEndian.AppendUint32([]byte(magic), uint32(len(body))), body...)); err != nil {
		return fmt.Errorf("write the hand-in: %w", err)
	}
	return nil
}

// ReadHeader reads what WriteHeader wrote. Each branch of a repository occurs
// once, and keys, names and ids are valid.
func ReadHeader(r io.Reader) (Header, error) {
	var h Header
	start := make([]byte, len(magic)+4)
	if _, err := io.ReadFull(r, start); err != nil {
		return h, fmt.Errorf("%w: it ends in the header", ErrBadStream)
	}
	size := binary.BigEndian.Uint32(start[len(magic):])
	if string(start[:len(magic)]) != magic || size > maxHeader {
		return h, fmt.Errorf("%w: no header", ErrBadStream)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return h, fmt.Errorf("%w: it ends in the header", ErrBadStream)
	}
	if err := wire.Decode(body, &h); err != nil {
		return Header{}, fmt.Errorf("%w: %w", ErrBadStream, err)
	}
	return h, h.check()
}

func (h Header) check() error {
	if len(h.Tips) > maxTips {
		return fmt.Errorf("%w: too many branches", ErrBadStream)
	}
	seen := map[Tip]bool{}
	for _, t := range h.Tips {
		name := Tip{RepoKey: t.RepoKey, Branch: t.Branch}
		if !core.ValidRepoKey(t.RepoKey) || t.Branch == "" || t.OID.IsZero() || seen[name] {
			return fmt.Errorf("%w: a branch that is empty or stands twice", ErrBadStream)
		}
		seen[name] = true
	}
	return nil
}
