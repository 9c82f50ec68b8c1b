// Package headfile keeps the head of the audit chain in a small file of its
// own, outside the database, so that a database that was cut, replaced or
// written anew is told from one that lost its power.
//
// # The order
//
// A commit is made durable in the database first, then its head here, and only
// then is anybody answered. So:
//
//   - What was acknowledged is held by this file. A database that ends before
//     the head, or has another entry there, was changed: no crash does that,
//     because the head never gets here before its entries are on the disk.
//   - A crash between the two leaves the database ahead by what one commit
//     holds, which nobody was told of. All entries of a commit have one time,
//     so that more than that is told from it (store.CheckHead).
//
// The other order (the file first, saying what comes next) would let the last
// commit be cut off without a trace.
//
// # The form
//
// Two lines of one length, each alone in a block of blockSize bytes, are
// written in turns, each synced. A line that a power cut tore does not match
// its sum, and the other one, the head before it, counts: that too is a
// database ahead by one commit. A new file renamed over the old one would be
// as safe and cost four times as much on ext4 (a new inode and the folder are
// synced too), in the path of every decision; and it needs free space, which
// the user's no must not depend on.
package headfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"github.com/madarco/agentbox/core/atomicfile"
	"github.com/madarco/agentbox/relay/store"
)

// ErrDamaged is returned when neither line of the file reads.
var ErrDamaged = errors.New("the file does not hold a head")

const (
	// blockSize keeps the lines apart: no disk of today tears more than a block
	// of 4 KiB when it writes one.
	blockSize = 4096
	blocks    = 2
	// form is what a line says before its sum: its version, the number of the
	// entry and its hash.
	form = "agentbox-audit-head-1 %019d %64s"
)

// File is the open file. It is not safe for concurrent use.
type File struct {
	f *os.File
	// next is the block that does not hold the head.
	next int64
}

// Create writes a new file with the head, readable by the user alone. A file
// that lies there is replaced.
func Create(path string, h store.Head) error {
	block := append(line(h), bytes.Repeat([]byte("\n"), blockSize-len(line(h)))...)
	if err := atomicfile.Write(path, bytes.Repeat(block, blocks), 0o600); err != nil {
		return fmt.Errorf("keep the head of the audit log: %w", err)
	}
	return nil
}

// Open opens the file for Put and tells the head. Errors wrap fs.ErrNotExist or
// ErrDamaged.
func Open(path string) (*File, store.Head, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, store.Head{}, fmt.Errorf("read the head of the audit log: %w", err)
	}
	h, at, err := read(f)
	if err != nil {
		return nil, h, errors.Join(fmt.Errorf("read the head of the audit log: %s: %w", path, err), f.Close())
	}
	return &File{f, (at + 1) % blocks}, h, nil
}

// Read tells the head without holding the file; errors as Open's.
func Read(path string) (store.Head, error) {
	f, err := os.Open(path)
	if err != nil {
		return store.Head{}, fmt.Errorf("read the head of the audit log: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	h, _, err := read(f)
	if err != nil {
		return h, fmt.Errorf("read the head of the audit log: %s: %w", path, err)
	}
	return h, nil
}

// Verify walks the whole chain, holds its end against the file, and returns its
// head. A relay may append meanwhile. The error wraps store.ErrTampered and
// names the first entry that does not hold; or fs.ErrNotExist or ErrDamaged.
func Verify(ctx context.Context, log store.AuditLog, path string) (store.Head, error) {
	known, err := Read(path)
	if err != nil {
		return known, err
	}
	if head, err := store.VerifyAudit(ctx, log, known); err != nil {
		return head, err
	}
	for {
		head, err := store.CheckHead(ctx, log, known)
		if !errors.Is(err, store.ErrTampered) {
			return head, err
		}
		// A relay that went on explains it; its next head stands for that.
		now, readErr := Read(path)
		if readErr != nil || now == known {
			return head, errors.Join(err, readErr)
		}
		known = now
	}
}

// Put makes h the head. When it returns nil, the head is durable; after an
// error the old one counts still, and Put may be called again.
func (f *File) Put(h store.Head) error {
	_, err := f.f.WriteAt(line(h), f.next*blockSize)
	if err == nil {
		err = f.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("keep the head of the audit log: %w", err)
	}
	f.next = (f.next + 1) % blocks
	return nil
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

// read finds the newest head and the block that holds it.
func read(f *os.File) (newest store.Head, at int64, err error) {
	found := false
	for i := range int64(blocks) {
		raw := make([]byte, len(line(store.Head{})))
		if _, err := f.ReadAt(raw, i*blockSize); err != nil {
			continue // a short file holds no line here
		}
		h, ok := parse(raw)
		if ok && (!found || h.Seq > newest.Seq) {
			newest, at, found = h, i, true
		}
	}
	if !found {
		return store.Head{}, 0, ErrDamaged
	}
	return newest, at, nil
}

// line is a head as it lies in the file; all lines are of one length.
func line(h store.Head) []byte {
	text := fmt.Sprintf(form, h.Seq, h.Hash)
	sum := sha256.Sum256([]byte(text))
	return []byte(text + " " + hex.EncodeToString(sum[:8]) + "\n")
}

// parse reads a line; what line would not have written is none.
func parse(raw []byte) (store.Head, bool) {
	fields := bytes.Fields(raw)
	var h store.Head
	if len(fields) < 3 {
		return h, false
	}
	if _, err := fmt.Sscanf(string(fields[1]), "%d", &h.Seq); err != nil {
		return h, false
	}
	if len(fields) == 4 { // the empty chain has no hash
		h.Hash = string(fields[2])
	}
	return h, bytes.Equal(raw, line(h))
}
