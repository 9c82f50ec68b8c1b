// Package setup is the stream by which the host fills a box: the relay's
// token, then one workspace after the other. The host writes it to the
// standard input of `agentbox-ctl setup`, which answers with one Report in
// JSON on its standard output.
//
// The form is: an 8-byte magic, one length-prefixed JSON Header, and for each
// repository of the header its sections in the order of Sections, each a run
// of length-prefixed chunks closed by a chunk of length zero. A project without
// a repository has its Files first. Lengths are
// 32-bit big-endian. So both ends stream, and neither holds a pack in memory.
//
// Invariant: the box trusts the host in this direction; the host reads only
// the Report, capped and decoded strictly.
package setup

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/madarco/agentbox/core"
)

const (
	magic     = "abxset01"
	maxHeader = 64 << 20
	maxChunk  = 1 << 20
)

// Header opens the stream.
type Header struct {
	BoxID   string       `json:"boxId"`
	BoxName core.BoxName `json:"boxName"`
	// RelayEnv becomes /run/agentbox/relay.env, mode 0600.
	RelayEnv map[string]string `json:"relayEnv"`
	// Folder: a Files section for the workspace itself comes before those of
	// the repositories, because the project is in no repository.
	Folder bool   `json:"folder,omitempty"`
	Repos  []Repo `json:"repos,omitempty"`
	// Go lets the daemon start once everything is in place.
	Go bool `json:"go"`
}

// Repo describes one repository to make in the box.
type Repo struct {
	core.Repo
	// Endpoint is the relay's smart-HTTP address of the repository, and
	// Rewrites the spellings of the remote's URL that git sends there instead.
	Endpoint string   `json:"endpoint"`
	Rewrites []string `json:"rewrites,omitempty"`
	// Alternates is the box's path of the seed's objects; empty when the
	// objects come in the pack section.
	Alternates string `json:"alternates,omitempty"`
	// Refs are written as packed-refs, full names as the box shall have them.
	Refs []Ref `json:"refs,omitempty"`
	// Symrefs are symbolic refs to write, such as
	// refs/remotes/origin/HEAD -> refs/remotes/origin/main.
	Symrefs map[string]string `json:"symrefs,omitempty"`
	Shallow []core.ObjectID   `json:"shallow,omitempty"`
	// Config holds allow-listed values of the user's configuration, in order.
	Config []ConfigEntry `json:"config,omitempty"`
	// Info are the texts of files below info in the git folder, by name:
	// sparse-checkout, exclude, attributes, UserAttributes.
	Info map[string]string `json:"info,omitempty"`
	// PseudoRefs are the texts of files such as MERGE_HEAD and MERGE_MSG, by
	// name: what an operation in progress has left.
	PseudoRefs map[string]string `json:"pseudoRefs,omitempty"`
	// SkipWorktree, AssumeUnchanged and IntentToAdd are index flags by path.
	// Paths are bytes: git's need not be UTF-8.
	SkipWorktree    [][]byte `json:"skipWorktree,omitempty"`
	AssumeUnchanged [][]byte `json:"assumeUnchanged,omitempty"`
	IntentToAdd     [][]byte `json:"intentToAdd,omitempty"`
	// Deleted are tracked paths that the user's work tree lacks.
	Deleted [][]byte `json:"deleted,omitempty"`
	// HasIndex tells that the index section replaces HEAD's tree.
	HasIndex bool `json:"hasIndex"`
	// LFS: the repository keeps contents with git-lfs, whose part the box does.
	LFS bool `json:"lfs,omitempty"`
}

// UserAttributes is the name in Repo.Info of the attributes that the user has
// for all repositories, which rank below those in the work tree.
const UserAttributes = "attributes-of-the-user"

// Ref is one line of packed-refs.
type Ref struct {
	Name   string        `json:"name"`
	OID    core.ObjectID `json:"oid"`
	Peeled core.ObjectID `json:"peeled,omitempty"`
}

// ConfigEntry is one variable; Key is in git's canonical form.
type ConfigEntry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Section names one part of a repository's data.
type Section int

// Sections in stream order. Pack holds objects that are in no seed (a git
// pack, may be empty), Index is input for `git update-index -z --index-info`,
// Files a tar of work tree bytes.
const (
	Pack Section = iota
	Index
	Files
)

// Sections lists them in stream order.
var Sections = []Section{Pack, Index, Files}

// Report is what the box answers.
type Report struct {
	OK    bool           `json:"ok"`
	Error core.Untrusted `json:"error,omitempty"`
}

// WriteHeader begins the stream.
func WriteHeader(w io.Writer, h Header) error {
	body, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode the setup header: %w", err)
	}
	if len(body) > maxHeader {
		return fmt.Errorf("setup header of %d bytes: %w", len(body), errTooLong)
	}
	buf := binary.BigEndian.AppendUint32([]byte(magic), uint32(len(body)))
	if _, err := w.Write(append(buf, body...)); err != nil {
		return fmt.Errorf("write the setup header: %w", err)
	}
	return nil
}

var errTooLong = errors.New("too long")

// ReadHeader reads what WriteHeader wrote.
func ReadHeader(r io.Reader) (Header, error) {
	var h Header
	start := make([]byte, len(magic)+4)
	if _, err := io.ReadFull(r, start); err != nil {
		return h, fmt.Errorf("read the setup header: %w", err)
	}
	if string(start[:len(magic)]) != magic {
		return h, errors.New("setup stream: host and box speak different versions; rebuild the box image")
	}
	n := binary.BigEndian.Uint32(start[len(magic):])
	if n > maxHeader {
		return h, fmt.Errorf("setup header of %d bytes: %w", n, errTooLong)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return h, fmt.Errorf("read the setup header: %w", err)
	}
	if err := json.Unmarshal(body, &h); err != nil {
		return h, fmt.Errorf("decode the setup header: %w", err)
	}
	return h, nil
}

// WriteSection copies what fill writes as one section and closes it.
func WriteSection(w io.Writer, fill func(io.Writer) error) error {
	buffered := bufio.NewWriterSize(chunkWriter{w}, maxChunk)
	if fill != nil {
		if err := fill(buffered); err != nil {
			return err
		}
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	_, err := w.Write(make([]byte, 4))
	return err
}

type chunkWriter struct{ w io.Writer }

func (c chunkWriter) Write(p []byte) (int, error) {
	total := 0
	for len(p) > 0 {
		n := min(len(p), maxChunk)
		var size [4]byte
		binary.BigEndian.PutUint32(size[:], uint32(n))
		if _, err := c.w.Write(size[:]); err != nil {
			return total, err
		}
		if _, err := c.w.Write(p[:n]); err != nil {
			return total, err
		}
		total, p = total+n, p[n:]
	}
	return total, nil
}

// NewSection reads one section of the stream until its closing chunk. The
// caller reads it to its end before it takes the next.
func NewSection(r io.Reader) io.Reader { return &sectionReader{r: r} }

type sectionReader struct {
	r    io.Reader
	left uint32
	done bool
}

func (s *sectionReader) Read(p []byte) (int, error) {
	for s.left == 0 {
		if s.done {
			return 0, io.EOF
		}
		var size [4]byte
		if _, err := io.ReadFull(s.r, size[:]); err != nil {
			return 0, fmt.Errorf("setup stream ended early: %w", noEOF(err))
		}
		s.left = binary.BigEndian.Uint32(size[:])
		if s.left > maxChunk {
			return 0, fmt.Errorf("setup chunk of %d bytes: %w", s.left, errTooLong)
		}
		s.done = s.left == 0
	}
	n, err := s.r.Read(p[:min(len(p), int(s.left))])
	s.left -= uint32(n)
	return n, noEOF(err)
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
