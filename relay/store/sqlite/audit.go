package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

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

// Audit implements store.AuditLog.
func (s *Store) Audit(ctx context.Context, since int64, limit int) ([]wire.AuditEntry, error) {
	return auditAfter(ctx, s.reader, since, limit)
}

// AuditHead implements store.AuditLog.
func (s *Store) AuditHead(ctx context.Context) (store.Head, error) { return auditHead(ctx, s.reader) }

func auditAfter(ctx context.Context, q querier, since int64, limit int) ([]wire.AuditEntry, error) {
	page, err := list(ctx, q, scanAudit,
		`SELECT seq, at, box_id, actor, action, detail, prev, hash FROM audit WHERE seq > ? ORDER BY seq LIMIT ?`, since, limit)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return page, nil
}

func auditHead(ctx context.Context, q querier) (store.Head, error) {
	h, err := orEmpty(one(ctx, q, scanHead, headQuery))
	if err != nil {
		return h, fmt.Errorf("read the head of the audit log: %w", err)
	}
	return h, nil
}

// Log is the audit log of a database that a relay may have open, to read alone.
type Log struct{ db *sql.DB }

var _ store.AuditLog = (*Log)(nil)

// OpenLog opens a database of any schema that has been, without a lock, and
// writes no byte to it. Errors wrap fs.ErrNotExist where there is none, and
// store.ErrNewerSchema.
func OpenLog(ctx context.Context, path string) (*Log, error) {
	_, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	db, err := sql.Open("sqlite", dsn(path, "mode=ro", "_pragma=query_only(1)"))
	if err == nil {
		db.SetMaxOpenConns(1)
		_, err = version(ctx, db)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the audit log in %s: %w", path, err), db.Close())
	}
	return &Log{db}, nil
}

// Audit implements store.AuditLog.
func (l *Log) Audit(ctx context.Context, since int64, limit int) ([]wire.AuditEntry, error) {
	return auditAfter(ctx, l.db, since, limit)
}

// AuditHead implements store.AuditLog.
func (l *Log) AuditHead(ctx context.Context) (store.Head, error) { return auditHead(ctx, l.db) }

// Close closes the file.
func (l *Log) Close() error { return l.db.Close() }

// AuditBytes implements store.AuditStore.
func (s *Store) AuditBytes(ctx context.Context, boxID string) (int64, error) {
	n, err := one(ctx, s.reader, scalar[int64], `SELECT coalesce(sum(audit_bytes), 0) FROM counters WHERE box_id = ?`, boxID)
	if err != nil {
		return 0, fmt.Errorf("count the audit bytes of box %q: %w", boxID, err)
	}
	return n, nil
}
