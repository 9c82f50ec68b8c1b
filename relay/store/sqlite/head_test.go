package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/headfile"
	"github.com/madarco/agentbox/relay/store/sqlite"
	"github.com/madarco/agentbox/relay/store/storetest"
)

func dbIn(dir string) string   { return filepath.Join(dir, "relay", "relay.db") }
func headIn(dir string) string { return filepath.Join(dir, "audit.head") }

func tryWithHead(dir string, now func() time.Time) (*sqlite.Store, error) {
	return sqlite.Open(context.Background(), dbIn(dir), sqlite.Options{Now: now, Head: headIn(dir)})
}

func withHead(t testing.TB, dir string, now func() time.Time) *sqlite.Store {
	t.Helper()
	s, err := tryWithHead(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStoreWithHead(t *testing.T) {
	storetest.Run(t, func(t testing.TB, now func() time.Time) store.Store { return withHead(t, t.TempDir(), now) })
}

// TestEveryAcknowledgedEntryIsBelowTheHead: whoever is answered finds a head in
// the file that is not before the own entry.
func TestEveryAcknowledgedEntryIsBelowTheHead(t *testing.T) {
	dir := t.TempDir()
	s := withHead(t, dir, nil)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				e, err := s.AppendAudit(t.Context(), store.Entry{Action: "act"})
				h, headErr := headfile.Read(headIn(dir))
				if err != nil || headErr != nil || h.Seq < e.Seq {
					t.Errorf("entry %d (%v) was acknowledged, and the head is %d (%v)", e.Seq, err, h.Seq, headErr)
				}
			}
		})
	}
	wg.Wait()
	closed(t, s)
	s = withHead(t, dir, nil)
	defer closed(t, s)
	if h := must(headfile.Read(headIn(dir))); h != must(s.AuditHead(t.Context())) || h.Seq != 320 {
		t.Errorf("the head is %+v", h)
	}
}

// audited makes a home with so many entries, a millisecond apart.
func audited(t *testing.T, dir string, n int) {
	t.Helper()
	clock := storetest.NewClock()
	s := withHead(t, dir, clock.Now)
	for i := range n {
		clock.Advance(time.Millisecond)
		must(s.AppendAudit(t.Context(), store.Entry{Action: fmt.Sprint("act ", i)}))
	}
	closed(t, s)
}

// oldHead puts back a head from before the last commits.
func oldHead(t *testing.T, dir string, seq int64) {
	t.Helper()
	s := openAt(t, dbIn(dir), nil)
	defer closed(t, s)
	var h store.Head
	if seq > 0 {
		e := must(s.Audit(t.Context(), seq-1, 1))[0]
		h = store.Head{Seq: e.Seq, Hash: e.Hash}
	}
	if err := headfile.Create(headIn(dir), h); err != nil {
		t.Fatal(err)
	}
}

func TestADatabaseThatDoesNotHoldTheHeadIsRefusedAndLeftAsItIs(t *testing.T) {
	const untie = `DROP TRIGGER audit_is_not_cut; DROP TRIGGER audit_is_not_changed;`
	for what, change := range map[string]func(t *testing.T, dir string){
		"its end was cut":      func(t *testing.T, dir string) { run(t, raw(t, dbIn(dir)), untie+`DELETE FROM audit WHERE seq = 5`) },
		"all of it was cut":    func(t *testing.T, dir string) { run(t, raw(t, dbIn(dir)), untie+`DELETE FROM audit`) },
		"it is another one":    func(t *testing.T, dir string) { done(t, os.RemoveAll(filepath.Dir(dbIn(dir)))); other(t, dir, 5) },
		"a longer one":         func(t *testing.T, dir string) { done(t, os.RemoveAll(filepath.Dir(dbIn(dir)))); other(t, dir, 9) },
		"it is gone":           func(t *testing.T, dir string) { done(t, os.RemoveAll(filepath.Dir(dbIn(dir)))) },
		"two commits too many": func(t *testing.T, dir string) { oldHead(t, dir, 3) },
		"all commits too many": func(t *testing.T, dir string) { oldHead(t, dir, 0) },
		"its head was changed": func(t *testing.T, dir string) {
			run(t, raw(t, dbIn(dir)), untie+`UPDATE audit SET hash = 'x' WHERE seq = 5`)
		},
		"the head's file is no": func(t *testing.T, dir string) { done(t, os.WriteFile(headIn(dir), []byte("x"), 0o600)) },
	} {
		t.Run(strings.ReplaceAll(what, " ", "-"), func(t *testing.T) {
			dir := t.TempDir()
			audited(t, dir, 5)
			change(t, dir)
			before := must(os.ReadFile(headIn(dir)))
			rows := entries(t, dir)
			s, err := tryWithHead(dir, nil)
			if err == nil {
				closed(t, s)
				t.Fatal("it was opened")
			}
			if !errors.Is(err, store.ErrTampered) && !errors.Is(err, headfile.ErrDamaged) {
				t.Fatal(err)
			}
			if !strings.Contains(err.Error(), "agentbox audit --verify") || !strings.Contains(err.Error(), "move "+headIn(dir)+" away") {
				t.Errorf("it does not say what to do: %v", err)
			}
			if after := must(os.ReadFile(headIn(dir))); string(after) != string(before) || entries(t, dir) != rows {
				t.Error("something was written")
			}
			// What the error says goes on from there, and is written down.
			done(t, os.Remove(headIn(dir)))
			if what == "its head was changed" {
				return // this chain never holds again
			}
			s = withHead(t, dir, nil)
			defer closed(t, s)
			all := must(s.Audit(t.Context(), 0, 99))
			if rows > 0 && all[len(all)-1].Action != "audit.head" {
				t.Errorf("it is not written down: %+v", all)
			}
		})
	}
}

// other makes a database whose chain is another one, with the head's file as it is.
func other(t *testing.T, dir string, n int) {
	t.Helper()
	elsewhere := t.TempDir()
	audited(t, elsewhere, n)
	done(t, os.Rename(filepath.Dir(dbIn(elsewhere)), filepath.Dir(dbIn(dir))))
}

func entries(t *testing.T, dir string) (n int) {
	t.Helper()
	s := openAt(t, dbIn(dir), nil)
	defer closed(t, s)
	return len(must(s.Audit(t.Context(), 0, 99)))
}

func TestADatabaseAheadByACommitIsMended(t *testing.T) {
	dir := t.TempDir()
	audited(t, dir, 4)
	oldHead(t, dir, 3)
	s := withHead(t, dir, nil)
	defer closed(t, s)
	if h := must(headfile.Read(headIn(dir))); h != must(s.AuditHead(t.Context())) || h.Seq != 4 {
		t.Errorf("the head is %+v", h)
	}
}

// TestNoCommitFollowsOneWhoseHeadIsLost: else a database could get ahead by
// more than a crash explains.
func TestNoCommitFollowsOneWhoseHeadIsLost(t *testing.T) {
	dir := t.TempDir()
	s := withHead(t, dir, nil)
	must(s.AppendAudit(t.Context(), store.Entry{Action: "kept"}))
	if err := s.LoseHead(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := s.AppendAudit(t.Context(), store.Entry{Action: "lost"}); !errors.Is(err, os.ErrClosed) {
			t.Errorf("acknowledged without a head: %v", err)
		}
	}
	if h := must(s.AuditHead(t.Context())); h.Seq != 2 {
		t.Errorf("the database went on to entry %d", h.Seq)
	}
	_ = s.Close() // complains of the file that is closed already
	s = withHead(t, dir, nil)
	defer closed(t, s)
	if e := must(s.AppendAudit(t.Context(), store.Entry{Action: "on"})); e.Seq != 3 {
		t.Errorf("it goes on with entry %d", e.Seq)
	}
}

func TestAFailedWriteLeavesNoHead(t *testing.T) {
	dir := t.TempDir()
	s := withHead(t, dir, nil)
	defer closed(t, s)
	must(s.AppendAudit(t.Context(), store.Entry{Action: "kept"}))
	if _, err := s.AppendAudit(t.Context(), store.Entry{Action: strings.Repeat("x", store.MaxDetailBytes+1)}); !errors.Is(err, store.ErrTooLarge) {
		t.Fatal(err)
	}
	if h := must(headfile.Read(headIn(dir))); h != must(s.AuditHead(t.Context())) {
		t.Errorf("the head is %+v", h)
	}
}

func done(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
