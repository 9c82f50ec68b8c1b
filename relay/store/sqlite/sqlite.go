// Package sqlite keeps the relay's store in one SQLite file.
//
// Writes go through one goroutine, which puts all that wait into one
// transaction: one flush of the disk serves many callers, and none overtakes
// another. synchronous=FULL, because with less a cut of the power loses what
// was acknowledged; with the flushes shared that costs little.
//
// Events lie in files beside it (store/ring), without a flush: they are many,
// tell more than they decide, and must outlive this process, not the machine's.
//
// Migrations are numbered SQL files and SQLite's own user_version. A migration
// library would do no more here, and costs start-up time in a program that is
// started for every command.
//
// Invariants:
//   - One process at a time has the file open: a lock file beside it is held
//     until Close or the process's end. Wake-ups in this process are complete
//     because of that.
//   - No INSERT, UPDATE or DELETE runs outside the writer's transaction, so
//     that the automatic checkpoint runs and the write-ahead log stays bounded.
//   - The head of the audit chain is in its file before anybody is answered, and
//     no commit follows one whose head is not.
//   - A file with a schema newer than ours is left as it is.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/headfile"
	"github.com/madarco/agentbox/relay/store/ring"
	"github.com/madarco/agentbox/relay/store/wake"
	_ "modernc.org/sqlite" // the database/sql driver "sqlite"
)

// ErrLocked is returned by Open when another process keeps the file open.
var ErrLocked = errors.New("another relay has the database open")

// readers is how many reads run at a time; each costs a page cache.
const readers = 3

// lockRetry is how often Open looks whether the file has become free.
const lockRetry = 20 * time.Millisecond

// Options adjust a store.
type Options struct {
	// Now is the clock, time.Now by default.
	Now func() time.Time
	// Head is the file outside the database in which the head of the audit
	// chain is kept too (store/headfile); empty keeps none.
	Head string
}

// Store is a store.Store in a SQLite file. Open makes one.
type Store struct {
	path   string
	now    func() time.Time
	lock   *flock.Flock
	writer *sql.DB
	reader *sql.DB
	topics wake.Topics
	events *ring.Ring

	// The writer's own: the file of the audit head, nil if none is kept, and
	// what was committed and has not got into it.
	head   *headfile.File
	unkept store.Head

	queue   chan *job
	closing chan struct{} // closed by Close: no new jobs
	stopped chan struct{} // closed by the writer when it has ended
	close   func() error
}

var _ store.Store = (*Store)(nil)

// Open opens or creates the database, readable by this user alone, and brings
// its schema up to date. It waits for a relay that is just leaving until ctx
// ends, then fails with ErrLocked. A database that does not hold the audit head
// of o.Head is store.ErrTampered, and left as it is.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{
		path: path, now: o.Now,
		queue: make(chan *job, batchLimit), closing: make(chan struct{}), stopped: make(chan struct{}),
	}
	err := s.open(ctx)
	if err == nil && o.Head != "" {
		err = s.openHead(ctx, o.Head)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the relay's database %s: %w", path, err), s.release())
	}
	s.close = sync.OnceValue(s.shutdown)
	go s.writeLoop()
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	lock := flock.New(s.path+".lock", flock.SetPermissions(0o600))
	if ok, err := lock.TryLockContext(ctx, lockRetry); !ok {
		return fmt.Errorf("%w: stop it first (agentbox relay stop): %w", ErrLocked, err)
	}
	s.lock = lock
	// SQLite would create the file with the umask's mode, and gives its log the mode of the file.
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return err
	}
	if s.writer, err = sql.Open("sqlite", dsn(s.path, "_pragma=synchronous(full)", "_txlock=immediate")); err != nil {
		return err
	}
	s.writer.SetMaxOpenConns(1)
	if err := migrate(ctx, s.writer); err != nil {
		return err
	}
	if s.reader, err = sql.Open("sqlite", dsn(s.path, "mode=ro", "_pragma=query_only(1)")); err != nil {
		return err
	}
	s.reader.SetMaxOpenConns(readers)
	s.reader.SetMaxIdleConns(1)
	return s.openEvents(ctx)
}

// eventsDir is the folder of the boxes' events.
func (s *Store) eventsDir() string { return filepath.Join(filepath.Dir(s.path), "events") }

// dsn names the file as an SQLite URI. The page cache of a connection is held
// to 1 MiB: the relay lives in the background.
func dsn(path string, options ...string) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "_pragma=busy_timeout(5000)&_pragma=cache_size(-1024)"}
	for _, o := range options {
		u.RawQuery += "&" + o
	}
	return u.String()
}

// Watch implements store.Store.
func (s *Store) Watch(topic store.Topic) (<-chan struct{}, func()) { return s.topics.Watch(topic) }

// Close implements store.Store: writes that wait in the queue are done first.
func (s *Store) Close() error { return s.close() }

func (s *Store) shutdown() error {
	close(s.closing)
	<-s.stopped
	return s.release()
}

func (s *Store) release() error {
	var errs []error
	if s.head != nil {
		errs = append(errs, s.head.Close())
	}
	if s.events != nil {
		errs = append(errs, s.events.Close())
	}
	if s.reader != nil {
		errs = append(errs, s.reader.Close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Unlock())
	}
	return errors.Join(errs...)
}

// Prune implements store.Store. It also shortens the write-ahead log, which
// SQLite alone never does.
func (s *Store) Prune(ctx context.Context) error {
	err := s.write(ctx, func(t *tx) error {
		if _, err := t.exec(`DELETE FROM results WHERE at <= ?`, t.now.Add(-store.ResultTTL).UnixMilli()); err != nil {
			return err
		}
		_, err := t.exec(`DELETE FROM approvals WHERE updated_at <= ? AND state NOT IN ('pending', 'approved', 'executing')`,
			t.now.Add(-store.SettledTTL).UnixMilli())
		return err
	})
	if err == nil {
		_, err = s.writer.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	}
	if err != nil {
		return fmt.Errorf("prune the relay's database: %w", err)
	}
	return nil
}

//go:embed schema/*.sql
var schema embed.FS

// applicationID marks our files in SQLite's header: "AGBX".
const applicationID = 0x41474258

// migrate applies the numbered files that the database has not seen. Version n
// is the n-th file.
func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Glob(schema, "schema/*.sql")
	if err != nil {
		return err
	}
	have, err := version(ctx, db)
	if err != nil {
		return err
	}
	// The mode is kept in the file. It can't be changed in a transaction.
	if _, err := db.ExecContext(ctx, `PRAGMA journal_mode = WAL`); err != nil {
		return err
	}
	for i, name := range files[have:] {
		text, err := schema.ReadFile(name)
		if err != nil {
			return err
		}
		if err := applyVersion(ctx, db, have+i+1, string(text)); err != nil {
			return fmt.Errorf("apply %s: %w", name, err)
		}
	}
	return nil
}

// version is the schema of the database, 0 for a new one. It refuses what we
// don't know.
func version(ctx context.Context, db *sql.DB) (have int, err error) {
	files, err := fs.Glob(schema, "schema/*.sql")
	if err != nil {
		return 0, err
	}
	var app, tables int
	const look = `SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)`
	if err := db.QueryRowContext(ctx, look).Scan(&have, &app, &tables); err != nil {
		return 0, err
	}
	if have > len(files) {
		return 0, fmt.Errorf("%w: it has schema %d and this program knows %d: install the newer agentbox again, or move the file away", store.ErrNewerSchema, have, len(files))
	}
	if app != applicationID && (app != 0 || tables > 0) {
		return 0, errors.New("the file is some other program's database: move it away")
	}
	return have, nil
}

func applyVersion(ctx context.Context, db *sql.DB, version int, text string) error {
	t, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer t.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	mark := fmt.Sprintf("PRAGMA user_version = %d; PRAGMA application_id = %d;", version, applicationID)
	if _, err := t.ExecContext(ctx, text+mark); err != nil {
		return err
	}
	return t.Commit()
}
