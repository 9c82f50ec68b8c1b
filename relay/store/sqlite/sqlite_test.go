package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/madarco/agentbox/core"
	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/sqlite"
	"github.com/madarco/agentbox/relay/store/storetest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		writeUntilKilled(path)
		return
	}
	os.Exit(m.Run())
}

func openAt(t testing.TB, path string, now func() time.Time) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t testing.TB, now func() time.Time) store.Store {
	return openAt(t, filepath.Join(t.TempDir(), "relay", "relay.db"), now)
}

func TestStore(t *testing.T) { storetest.Run(t, open) }

func BenchmarkStore(b *testing.B) { storetest.Bench(b, open) }

func BenchmarkStoreWithHead(b *testing.B) {
	storetest.Bench(b, func(t testing.TB, now func() time.Time) store.Store { return withHead(t, t.TempDir(), now) })
}

func closed(t testing.TB, s store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func register(t testing.TB, s store.Store, id string) {
	t.Helper()
	if _, err := s.RegisterBox(context.Background(), core.Box{ID: id}, store.HashToken(id)); err != nil {
		t.Fatal(err)
	}
}

func TestEverythingSurvivesAReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.db")
	s := openAt(t, path, nil)
	ctx := t.Context()
	register(t, s, "b1")
	must(s.AppendEvent(ctx, "b1", wire.PostEvent{Type: "t"}))
	asked, _, err := s.OpenApproval(ctx, store.Ask{BoxID: "b1", Method: "m", Digest: "d", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	must(s.AnswerApproval(ctx, asked.ID, store.Reply{Yes: true}))
	must(s.Begin(ctx, store.Intent{BoxID: "b1", Method: "m", Digest: "d", ApprovalID: asked.ID, RequestID: "r"}))
	if err := s.SaveResult(ctx, "b1", "r2", "d2", wire.Envelope{Stdout: "kept"}); err != nil {
		t.Fatal(err)
	}
	look := func(s store.Store) []any {
		end := must(s.FeedEnd(ctx))
		return []any{
			must(s.Boxes(ctx)), must(s.Events(ctx, "b1", 0, 9)), must(s.Approvals(ctx, "")), must(s.Intents(ctx)),
			must(s.Result(ctx, "b1", "r2", "d2")), must(s.Audit(ctx, 0, 99)), must(s.AuditBytes(ctx, "b1")), end,
		}
	}
	before := look(s)
	closed(t, s)
	s = openAt(t, path, nil)
	defer closed(t, s)
	if after := look(s); !reflect.DeepEqual(before, after) {
		t.Errorf("got %+v; want %+v", after, before)
	}
}

func TestTheFilesAreTheUsersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "relay")
	s := openAt(t, filepath.Join(dir, "relay.db"), nil)
	defer closed(t, s)
	register(t, s, "b1")
	entries := must(os.ReadDir(dir))
	if len(entries) < 4 { // database, log, index of the log, lock
		t.Errorf("got %v", entries)
	}
	for _, e := range entries {
		want := os.FileMode(0o600)
		if e.IsDir() { // the events
			want = os.ModeDir | 0o700
		}
		if mode := must(e.Info()).Mode(); mode != want {
			t.Errorf("%s has mode %v", e.Name(), mode)
		}
	}
	if mode := must(os.Stat(dir)).Mode().Perm(); mode != 0o700 {
		t.Errorf("the folder has mode %v", mode)
	}
}

func TestNoTokenIsOnDisk(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, filepath.Join(dir, "relay.db"), nil)
	token := core.NewToken()
	must(s.RegisterBox(t.Context(), core.Box{ID: "b1"}, store.HashToken(token)))
	closed(t, s)
	if raw := must(os.ReadFile(filepath.Join(dir, "relay.db"))); strings.Contains(string(raw), token) {
		t.Error("the database holds the token")
	}
}

func TestOneProcessAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.db")
	first := openAt(t, path, nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sqlite.Open(ended, path, sqlite.Options{}); !errors.Is(err, sqlite.ErrLocked) {
		t.Errorf("got error %v; want %v", err, sqlite.ErrLocked)
	}
	second := make(chan *sqlite.Store)
	go func() {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Error(err)
		}
		second <- s
	}()
	closed(t, first)
	closed(t, <-second)
}

func TestOpeningAtOnceMigratesOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.db")
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// raw opens the file as any SQLite program would.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func run(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, text := range statements {
		if _, err := db.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

func TestANewerSchemaIsRefusedAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.db")
	closed(t, openAt(t, path, nil))
	db := raw(t, path)
	run(t, db, `CREATE TABLE future (x)`, `PRAGMA user_version = 99`)
	db.Close()
	before := must(os.ReadFile(path))
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if !errors.Is(err, store.ErrNewerSchema) {
		t.Errorf("got error %v; want %v", err, store.ErrNewerSchema)
	}
	if string(must(os.ReadFile(path))) != string(before) {
		t.Error("the database was changed")
	}
	// The refusal let go of the lock.
	run(t, raw(t, path), `PRAGMA user_version = 2`)
	closed(t, openAt(t, path, nil))
}

func TestEventsLeaveTheDatabaseAndTheirNumbersGoOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.db")
	db := raw(t, path)
	run(
		t, db, string(must(os.ReadFile("schema/001.sql"))),
		`PRAGMA user_version = 1`, `PRAGMA application_id = 0x41474258`,
		`INSERT INTO boxes VALUES ('b1', zeroblob(32), 1, '{"id":"b1"}')`,
		`INSERT INTO counters VALUES ('b1', 7, 3), ('', 0, 5)`,
		`INSERT INTO events (feed, box_id, seq, type, received_at, ts) VALUES (40, 'b1', 7, 't', 1, '')`,
	)
	db.Close()
	s := openAt(t, path, nil)
	defer closed(t, s)
	if events := must(s.Events(t.Context(), "b1", 0, 9)); len(events) != 0 {
		t.Errorf("kept %v", events)
	}
	if e := must(s.AppendEvent(t.Context(), "b1", wire.PostEvent{Type: "t"})); e.Seq != 8 {
		t.Errorf("got number %d; want 8", e.Seq)
	}
	if events, next, err := s.Feed(t.Context(), "40", 9); err != nil || len(events) != 1 || next != "41" {
		t.Errorf("the feed goes on with %v up to %s: %v", events, next, err)
	}
	if n := must(s.AuditBytes(t.Context(), "")); n != 5 {
		t.Errorf("%d audit bytes; want 5", n)
	}
}

func TestAForeignFileIsRefusedAndKept(t *testing.T) {
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	db := raw(t, foreign)
	run(t, db, `CREATE TABLE theirs (x)`)
	db.Close()
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{foreign, text} {
		before := must(os.ReadFile(path))
		if s, err := sqlite.Open(t.Context(), path, sqlite.Options{}); err == nil {
			t.Errorf("%s was opened", path)
			closed(t, s)
		}
		if string(must(os.ReadFile(path))) != string(before) {
			t.Errorf("%s was changed", path)
		}
	}
}

func TestTamperingIsFound(t *testing.T) {
	for name, statement := range map[string]string{
		"a changed detail": `UPDATE audit SET detail = '{"n":7}' WHERE seq = 5`,
		"a changed actor":  `UPDATE audit SET actor = 'operator' WHERE seq = 5`,
		"another box":      `UPDATE audit SET box_id = 'b2' WHERE seq = 5`,
		"another time":     `UPDATE audit SET at = at + 1 WHERE seq = 5`,
		"a removed entry":  `DELETE FROM audit WHERE seq = 5`,
		"the first gone":   `DELETE FROM audit WHERE seq = 1`,
		"the end cut":      `DELETE FROM audit WHERE seq > 5`,
		"all gone":         `DELETE FROM audit`,
		"two swapped":      `UPDATE audit SET seq = CASE seq WHEN 5 THEN -6 ELSE -5 END WHERE seq IN (5, 6); UPDATE audit SET seq = -seq WHERE seq < 0`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "relay.db")
			s := openAt(t, path, nil)
			for i := range 10 {
				must(s.AppendAudit(t.Context(), store.Entry{BoxID: "b1", Actor: "policy", Action: "act", Detail: []byte(fmt.Sprintf(`{"n":%d}`, i))}))
			}
			head := must(s.AuditHead(t.Context()))
			must(store.VerifyAudit(t.Context(), s, head))
			closed(t, s)

			db := raw(t, path)
			if _, err := db.Exec(statement); err == nil {
				t.Error("the database let the audit be changed")
			}
			run(t, db, `DROP TRIGGER audit_is_not_changed`, `DROP TRIGGER audit_is_not_cut`, statement)
			db.Close()

			s = openAt(t, path, nil)
			defer closed(t, s)
			if _, err := store.VerifyAudit(t.Context(), s, head); !errors.Is(err, store.ErrTampered) {
				t.Errorf("got error %v; want %v", err, store.ErrTampered)
			}
		})
	}
}

func TestTheLogOfWritesStaysBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.db")
	s := openAt(t, path, nil)
	defer closed(t, s)
	register(t, s, "b1")
	big := []byte(`"` + strings.Repeat("x", 12<<10) + `"`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if err := s.SetStatus(t.Context(), "b1", big); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	const written, bound = 1600 * 12 << 10, 10 << 20
	if size := must(os.Stat(path + "-wal")).Size(); size > bound {
		t.Errorf("after %d bytes of statuses the log of writes has %d", written, size)
	}
	if size := must(os.Stat(path)).Size(); size > bound {
		t.Errorf("the database has %d bytes for one status", size)
	}
	if err := s.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if size := must(os.Stat(path + "-wal")).Size(); size != 0 {
		t.Errorf("after Prune the log of writes has %d bytes", size)
	}
}

func TestOneFailureDoesNotTakeOthersWithIt(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "relay.db"), nil)
	defer closed(t, s)
	register(t, s, "b1")
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			box, want := "b1", error(nil)
			if i%2 == 1 {
				box, want = "unknown", store.ErrNotFound
			}
			if _, err := s.AppendEvent(t.Context(), box, wire.PostEvent{Type: "t"}); !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("event of %s: got error %v; want %v", box, err, want)
			}
		})
	}
	wg.Wait()
	if events := must(s.Events(t.Context(), "b1", 0, 99)); len(events) != 32 || events[31].Seq != 32 {
		t.Errorf("%d events are kept; want 32", len(events))
	}
}

func TestCloseDoesWhatIsQueued(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.db")
	s := openAt(t, path, nil)
	register(t, s, "b1")
	var mu sync.Mutex
	var acknowledged []int64
	var wg sync.WaitGroup
	begun := make(chan struct{}, 8)
	for range 8 {
		wg.Go(func() {
			for first := true; ; first = false {
				e, err := s.AppendEvent(context.Background(), "b1", wire.PostEvent{Type: "t"})
				if err != nil {
					if !errors.Is(err, store.ErrClosed) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, e.Seq)
				mu.Unlock()
				if first {
					begun <- struct{}{}
				}
			}
		})
	}
	for range 8 {
		<-begun
	}
	closed(t, s)
	wg.Wait()
	s = openAt(t, path, nil)
	defer closed(t, s)
	last := acknowledged[len(acknowledged)-1]
	if e := must(s.AppendEvent(t.Context(), "b1", wire.PostEvent{Type: "t"})); e.Seq != int64(len(acknowledged))+1 {
		t.Errorf("%d events were acknowledged, up to %d, and the next is %d", len(acknowledged), last, e.Seq)
	}
}
