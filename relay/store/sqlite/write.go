package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/madarco/agentbox/relay/store"
)

// batchLimit is how many jobs share a transaction, and how many may wait.
const batchLimit = 256

// job is a piece of work for the writer.
type job struct {
	ctx  context.Context
	do   func(*tx) error
	done chan error // takes one value
}

// tx is what a job writes through. Waiters of the topics are woken when the
// transaction has been committed.
type tx struct {
	sql     *sql.Tx
	now     time.Time
	topics  []store.Topic
	effects []effect
	job     int // the one that is being done
	// head is the last audit entry of this transaction, zero if there is none.
	head store.Head
}

// effect is what a job does beside the database, once it is committed.
type effect struct {
	job int
	do  func() error
}

// write has the job done in a transaction. Once it is in the queue only the
// writer decides: the job is skipped when ctx ends before its turn, else done.
func (s *Store) write(ctx context.Context, do func(*tx) error) error {
	j := &job{ctx: ctx, do: do, done: make(chan error, 1)}
	select {
	case <-s.closing:
		return store.ErrClosed
	default:
	}
	select {
	case s.queue <- j:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return store.ErrClosed
	}
	select {
	case err := <-j.done:
		return err
	case <-s.stopped:
	}
	// The writer has left; it may have done the job on its way out.
	select {
	case err := <-j.done:
		return err
	default:
		return store.ErrClosed
	}
}

func (s *Store) writeLoop() {
	defer close(s.stopped)
	for {
		select {
		case j := <-s.queue:
			s.commit(s.gather(j))
		case <-s.closing:
			select {
			case j := <-s.queue:
				s.commit(s.gather(j))
			default:
				return
			}
		}
	}
}

// gather takes what else waits, without waiting for more.
func (s *Store) gather(first *job) []*job {
	batch := []*job{first}
	for len(batch) < batchLimit {
		select {
		case j := <-s.queue:
			batch = append(batch, j)
		default:
			return batch
		}
	}
	return batch
}

// commit does the jobs in one transaction. A job that fails takes back what it
// wrote, and nothing of the others.
func (s *Store) commit(batch []*job) {
	results := make([]error, len(batch))
	t, err := s.transact(batch, results)
	if err == nil {
		if unkept := s.keepHead(t.head); unkept != nil {
			for i := range results {
				results[i] = errors.Join(results[i], unkept)
			}
		}
		for _, e := range t.effects {
			results[e.job] = errors.Join(results[e.job], e.do())
		}
		s.topics.Wake(t.topics...)
	}
	for i, j := range batch {
		if err != nil {
			results[i] = fmt.Errorf("write to the relay's database: %w", err)
		}
		j.done <- results[i]
	}
}

// transact returns an error when nothing at all was written.
func (s *Store) transact(batch []*job, results []error) (*tx, error) {
	ctx := context.Background() // begun is finished; see write
	if err := s.keepHead(store.Head{}); err != nil {
		return nil, err // the database must not get ahead by another commit
	}
	sqlTx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer sqlTx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	t := &tx{sql: sqlTx, now: s.clock()}
	for i, j := range batch {
		if results[i] = j.ctx.Err(); results[i] != nil {
			continue
		}
		t.job = i
		var fatal error
		if results[i], fatal = t.attempt(j); fatal != nil {
			return nil, fatal
		}
	}
	return t, sqlTx.Commit()
}

// attempt does one job within a savepoint. The second error means that the
// transaction can't go on.
func (t *tx) attempt(j *job) (failed, fatal error) {
	if _, err := t.exec(`SAVEPOINT job`); err != nil {
		return nil, err
	}
	topics, effects, head := len(t.topics), len(t.effects), t.head
	if failed = j.do(t); failed != nil {
		t.topics, t.effects = t.topics[:topics], t.effects[:effects]
		t.head = head
		if _, err := t.exec(`ROLLBACK TO job`); err != nil {
			return failed, err
		}
	}
	_, fatal = t.exec(`RELEASE job`)
	return failed, fatal
}

// clock cuts the time to what the database keeps.
func (s *Store) clock() time.Time { return s.now().Truncate(time.Millisecond).UTC() }

// exec runs a statement and tells how many rows it changed.
func (t *tx) exec(query string, args ...any) (int64, error) {
	res, err := t.sql.ExecContext(context.Background(), query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// then has something done after the commit, in the order of the jobs and before
// they are answered.
func (t *tx) then(do func() error) { t.effects = append(t.effects, effect{t.job, do}) }

func (t *tx) wake(topics ...store.Topic) { t.topics = append(t.topics, topics...) }

// querier is the reader's pool, or the transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// list reads every row to the end, as SQLite needs to let go of a snapshot.
func list[T any](ctx context.Context, q querier, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// one is list where at most one row can come; store.ErrNotFound when none does.
func one[T any](ctx context.Context, q querier, scan func(*sql.Rows) (T, error), query string, args ...any) (T, error) {
	found, err := list(ctx, q, scan, query, args...)
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		var none T
		return none, err
	}
	return found[0], nil
}

// find is one within a transaction.
func find[T any](t *tx, scan func(*sql.Rows) (T, error), query string, args ...any) (T, error) {
	return one(context.Background(), t.sql, scan, query, args...)
}

// findAll is list within a transaction.
func findAll[T any](t *tx, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	return list(context.Background(), t.sql, scan, query, args...)
}

// fromBody scans a single column that holds a row as JSON.
func fromBody[T any](rows *sql.Rows) (T, error) {
	var v T
	var body []byte
	if err := rows.Scan(&body); err != nil {
		return v, err
	}
	return v, json.Unmarshal(body, &v)
}

func toBody(v any) (string, error) {
	raw, err := json.Marshal(v)
	return string(raw), err
}

func scalar[T any](rows *sql.Rows) (T, error) {
	var v T
	err := rows.Scan(&v)
	return v, err
}

func millis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
