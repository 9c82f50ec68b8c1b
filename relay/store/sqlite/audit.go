package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

const headQuery = `SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1`

func scanHead(rows *sql.Rows) (store.Head, error) {
	var h store.Head
	err := rows.Scan(&h.Seq, &h.Hash)
	return h, err
}

// orEmpty turns "no entry yet" into the zero head.
func orEmpty(h store.Head, err error) (store.Head, error) {
	if errors.Is(err, store.ErrNotFound) {
		return store.Head{}, nil
	}
	return h, err
}

func (t *tx) appendAudit(e store.Entry) (wire.AuditEntry, error) {
	head := t.head
	if head == (store.Head{}) {
		var err error
		if head, err = orEmpty(find(t, scanHead, headQuery)); err != nil {
			return wire.AuditEntry{}, err
		}
	}
	link, err := store.Seal(head, e, t.now)
	if err != nil {
		return link, err
	}
	var detail any // NULL where there is none
	if link.Detail != nil {
		detail = string(link.Detail)
	}
	if _, err := t.exec(`INSERT INTO audit (seq, at, box_id, actor, action, detail, prev, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		link.Seq, link.At.UnixMilli(), link.BoxID, link.Actor, link.Action, detail, link.Prev, link.Hash); err != nil {
		return link, err
	}
	t.head = store.Head{Seq: link.Seq, Hash: link.Hash}
	_, err = t.exec(`INSERT INTO counters (box_id, audit_bytes) VALUES (?1, ?2)
		ON CONFLICT (box_id) DO UPDATE SET audit_bytes = audit_bytes + ?2`, link.BoxID, store.EntryBytes(link))
	return link, err
}

// AppendAudit implements store.AuditStore.
func (s *Store) AppendAudit(ctx context.Context, e store.Entry) (wire.AuditEntry, error) {
	var link wire.AuditEntry
	err := s.write(ctx, func(t *tx) (err error) {
		link, err = t.appendAudit(e)
		return err
	})
	if err != nil {
		return wire.AuditEntry{}, fmt.Errorf("append to the audit log: %w", err)
	}
	return link, nil
}

func scanAudit(rows *sql.Rows) (wire.AuditEntry, error) {
	var e wire.AuditEntry
	var at int64
	err := rows.Scan(&e.Seq, &at, &e.BoxID, &e.Actor, &e.Action, (*[]byte)(&e.Detail), &e.Prev, &e.Hash)
	e.At = millis(at)
	return e, err
}

// Audit implements store.AuditStore.
func (s *Store) Audit(ctx context.Context, since int64, limit int) ([]wire.AuditEntry, error) {
	page, err := list(ctx, s.reader, scanAudit,
		`SELECT seq, at, box_id, actor, action, detail, prev, hash FROM audit WHERE seq > ? ORDER BY seq LIMIT ?`, since, limit)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return page, nil
}

// AuditHead implements store.AuditStore.
func (s *Store) AuditHead(ctx context.Context) (store.Head, error) {
	h, err := orEmpty(one(ctx, s.reader, scanHead, headQuery))
	if err != nil {
		return h, fmt.Errorf("read the head of the audit log: %w", err)
	}
	return h, nil
}

// AuditBytes implements store.AuditStore.
func (s *Store) AuditBytes(ctx context.Context, boxID string) (int64, error) {
	n, err := one(ctx, s.reader, scalar[int64], `SELECT coalesce(sum(audit_bytes), 0) FROM counters WHERE box_id = ?`, boxID)
	if err != nil {
		return 0, fmt.Errorf("count the audit bytes of box %q: %w", boxID, err)
	}
	return n, nil
}
