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
func VerifyAudit(ctx context.Context, s AuditStore, known Head) (Head, error) {
	var head Head
	seen := known == Head{}
	for {
		page, err := s.Audit(ctx, head.Seq, verifyPage)
		if err != nil {
			return head, err
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if e.Seq != head.Seq+1 || e.Prev != head.Hash || e.Hash != hashOf(e) {
				return head, fmt.Errorf("%w: entry %d does not follow entry %d", ErrTampered, e.Seq, head.Seq)
			}
			head = Head{Seq: e.Seq, Hash: e.Hash}
			seen = seen || head == known
		}
	}
	if !seen {
		return head, fmt.Errorf("%w: it ends at entry %d and does not hold the known entry %d", ErrTampered, head.Seq, known.Seq)
	}
	return head, nil
}
