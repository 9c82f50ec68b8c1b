package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/madarco/agentbox/core/wire"
)

// chainName separates our hashes from any other use of SHA-256, and names the
// form of what is hashed.
const chainName = "agentbox-audit-1"

// verifyPage is how many entries VerifyAudit holds at a time.
const verifyPage = 500

// Seal makes the entry that follows prev, for drivers. The detail is brought to
// the form in which encoding/json prints it, so that an exported entry can be
// checked too.
func Seal(prev Head, e Entry, at time.Time) (wire.AuditEntry, error) {
	link := wire.AuditEntry{Seq: prev.Seq + 1, At: at, BoxID: e.BoxID, Actor: e.Actor, Action: e.Action, Prev: prev.Hash}
	if e.Detail != nil {
		canonical, err := json.Marshal(e.Detail)
		if err != nil {
			return wire.AuditEntry{}, fmt.Errorf("audit %s: read the detail: %w", e.Action, err)
		}
		link.Detail = canonical
	}
	if size := EntryBytes(link); size > MaxDetailBytes {
		return wire.AuditEntry{}, fmt.Errorf("audit %s: %d bytes: %w", e.Action, size, ErrTooLarge)
	}
	link.Hash = hashOf(link)
	return link, nil
}

// EntryBytes is what an entry adds to AuditBytes, for drivers.
func EntryBytes(e wire.AuditEntry) int64 {
	return int64(len(e.BoxID) + len(e.Actor) + len(e.Action) + len(e.Detail))
}

// hashOf covers every field but Hash itself. A JSON array of the fields can be
// read in one way only, and anybody can build it again outside this program.
func hashOf(e wire.AuditEntry) string {
	text, err := json.Marshal([]any{chainName, e.Seq, e.At.UnixMilli(), e.BoxID, e.Actor, e.Action, string(e.Detail), e.Prev})
	if err != nil {
		return "" // strings and integers always marshal; no stored hash is empty
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// VerifyAudit walks the whole chain and returns its head. The error wraps
// ErrTampered and names the first entry that does not hold. known is a head
// that was kept elsewhere (the zero Head if none): a chain that does not
// contain it has been cut or written anew.
func VerifyAudit(ctx context.Context, s AuditLog, known Head) (Head, error) {
	seen := known == Head{}
	head, err := walk(ctx, s, Head{}, func(e wire.AuditEntry) error {
		if e.Seq == known.Seq && e.Hash != known.Hash {
			return fmt.Errorf("%w: entry %d is not the one whose hash is kept outside the database", ErrTampered, e.Seq)
		}
		seen = seen || e.Seq == known.Seq
		return nil
	})
	if err == nil && !seen {
		err = fmt.Errorf("%w: it ends at entry %d and does not hold the known entry %d", ErrTampered, head.Seq, known.Seq)
	}
	return head, err
}

// CheckHead holds the end of the chain against the head that is kept elsewhere,
// and returns the chain's. A crash may leave the chain ahead of it by the
// entries of one commit, which have one time; whatever else differs is
// ErrTampered. While somebody appends, known may be old: read it again then.
func CheckHead(ctx context.Context, s AuditLog, known Head) (Head, error) {
	if known.Seq > 0 {
		at, err := s.Audit(ctx, known.Seq-1, 1)
		if err != nil {
			return Head{}, err
		}
		if len(at) == 0 {
			end, err := s.AuditHead(ctx)
			if err == nil {
				err = fmt.Errorf("%w: it ends at entry %d, and entry %d was there already", ErrTampered, end.Seq, known.Seq)
			}
			return end, err
		}
		if at[0].Seq != known.Seq || at[0].Hash != known.Hash {
			return known, fmt.Errorf("%w: entry %d is not the one whose hash is kept outside the database", ErrTampered, known.Seq)
		}
	}
	var first time.Time
	return walk(ctx, s, known, func(e wire.AuditEntry) error {
		if first.IsZero() {
			first = e.At
		}
		if !e.At.Equal(first) {
			return fmt.Errorf("%w: entry %d and what follows it were not written by the relay", ErrTampered, e.Seq)
		}
		return nil
	})
}

// walk follows the chain from the entry that head names to its end.
func walk(ctx context.Context, s AuditLog, head Head, each func(wire.AuditEntry) error) (Head, error) {
	for {
		page, err := s.Audit(ctx, head.Seq, verifyPage)
		if err != nil || len(page) == 0 {
			return head, err
		}
		for _, e := range page {
			if e.Seq != head.Seq+1 || e.Prev != head.Hash || e.Hash != hashOf(e) {
				return head, fmt.Errorf("%w: entry %d does not follow entry %d", ErrTampered, e.Seq, head.Seq)
			}
			if err := each(e); err != nil {
				return head, err
			}
			head = Head{Seq: e.Seq, Hash: e.Hash}
		}
	}
}
