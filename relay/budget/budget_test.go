package budget

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func inFolder(dir string) func(string) string {
	return func(boxID string) string { return filepath.Join(dir, boxID+".json") }
}

func TestABudgetIsForLife(t *testing.T) {
	at := inFolder(t.TempDir())
	limits := Limits{Bytes: 1000, CPU: time.Minute}
	l := NewLedger(limits, at)
	spend := func(bytes int64, cpu time.Duration) {
		t.Helper()
		if err := l.Add("one", bytes, cpu); err != nil {
			t.Fatal(err)
		}
	}
	var spent *SpentError
	spend(999, 0)
	if err := l.Afford("one"); err != nil {
		t.Errorf("below the budget: %v", err)
	}
	l = NewLedger(limits, at) // the relay is restarted
	spend(1, time.Second)
	if err := l.Afford("one"); !errors.As(err, &spent) || spent.Account.Bytes != 1000 {
		t.Errorf("at the budget: %v", err)
	}
	if err := l.Afford("two"); err != nil {
		t.Errorf("another box: %v", err)
	}
	for range 2 { // an answer that is carried out twice
		if err := l.Raise("one", 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := NewLedger(limits, at).Afford("one"); err != nil {
		t.Errorf("with another budget: %v", err)
	}
	spend(0, 2*time.Minute)
	if err := l.Afford("one"); !errors.As(err, &spent) || spent.Account.Raised != 1 {
		t.Errorf("two budgets of time: %v", err)
	}
}

// TestSmallChangeIsWrittenInTheEnd: not at every landing, but when it adds up and
// when the relay ends.
func TestSmallChangeIsWrittenInTheEnd(t *testing.T) {
	at := inFolder(t.TempDir())
	l := NewLedger(Limits{Bytes: 1_000_000, CPU: time.Hour}, at)
	if err := l.Add("one", 10, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(at("one")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was written at once: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(at("one")); err != nil || !strings.Contains(string(text), `"bytes":10,`) {
		t.Errorf("%s, %v", text, err)
	}
	if err := os.WriteFile(at("two"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Afford("two"); err == nil {
		t.Error("an account that can't be read allows everything")
	}
	gone := NewLedger(Limits{Bytes: 1, CPU: 1}, inFolder(filepath.Join(t.TempDir(), "gone")))
	if err := gone.Add("one", 5, 5); err != nil {
		t.Errorf("a box that was destroyed meanwhile: %v", err)
	}
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPace(Limits{PerSecond: 5, Burst: 3})
		began := time.Now()
		for range 13 {
			if err := p.Wait(t.Context(), "one"); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("13 turns took %s", took)
		}
		if err := p.Wait(t.Context(), "two"); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("another box waits: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Wait(ctx, "one"); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that went away: %v", err)
		}
	})
}

func TestADiskThatGetsFullEndsAReader(t *testing.T) {
	free := int64(100 << 20)
	d := Disk{Reserve: 50 << 20, Free: func(string) (int64, error) { return free, nil }}
	r := d.Reader("/", io.LimitReader(endless{}, 64<<20))
	if _, err := io.CopyN(io.Discard, r, between); err != nil {
		t.Fatal(err)
	}
	free = 60 << 20
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, ErrNoRoom) {
		t.Errorf("got %v", err)
	}
	if err := d.Room("/", 11<<20); !errors.Is(err, ErrNoRoom) {
		t.Errorf("got %v", err)
	}
	if n, err := FreeOn(t.TempDir()); err != nil || n <= 0 {
		t.Errorf("this disk: %d, %v", n, err)
	}
	if err := (Disk{}).Room(filepath.Join(t.TempDir(), "gone"), 1); err != nil {
		t.Errorf("a path that is not there: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestChargesAddUp(t *testing.T) {
	ctx, m := Measure(t.Context())
	Charge(ctx, time.Second)
	Charge(ctx, time.Second)
	Charge(t.Context(), time.Second) // nobody counts
	if m.CPU() != 2*time.Second {
		t.Errorf("counted %s", m.CPU())
	}
}
