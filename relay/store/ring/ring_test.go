package ring_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
	"github.com/madarco/agentbox/relay/store/ring"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// world is a ring that can be opened again over what lies on disk.
type world struct {
	*testing.T
	dir  string
	ring *ring.Ring
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, dir: filepath.Join(t.TempDir(), "events")}
	w.reopen()
	return w
}

// reopen leaves the old ring as a kill does: nothing of it is closed.
func (w *world) reopen() {
	w.Helper()
	r, err := ring.Open(w.dir, 0)
	if err != nil {
		w.Fatal(err)
	}
	w.ring = r
	for _, id := range []string{"b1", "b2"} {
		if err := r.Admit(id, 0); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) post(id, text string) wire.Event {
	w.Helper()
	payload, err := json.Marshal(text)
	if err != nil {
		w.Fatal(err)
	}
	e, err := w.ring.Append(id, wire.PostEvent{Type: "t", Payload: payload}, noon)
	if err != nil {
		w.Fatal(err)
	}
	return e
}

// numbers are those that are kept of a box.
func (w *world) numbers(id string) []int64 {
	w.Helper()
	events, err := w.ring.Events(id, 0, 2*store.RingSize)
	if err != nil {
		w.Fatal(err)
	}
	var got []int64
	for _, e := range events {
		got = append(got, e.Seq)
	}
	return got
}

func (w *world) wantNumbers(id string, from, to int64) {
	w.Helper()
	got := w.numbers(id)
	if len(got) != int(to-from+1) {
		w.Fatalf("box %s keeps %v; want %d to %d", id, got, from, to)
	}
	for i, n := range got {
		if n != from+int64(i) {
			w.Fatalf("box %s keeps %v; want %d to %d", id, got, from, to)
		}
	}
}

func (w *world) segments(id string) []string {
	w.Helper()
	found, err := filepath.Glob(filepath.Join(w.dir, id, "*.events"))
	if err != nil || len(found) == 0 {
		w.Fatalf("segments of %s: %v, %v", id, found, err)
	}
	return found
}

func TestEventsOutliveTheProcess(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		w.post("b1", "x")
		w.post("b2", "y")
	}
	end := w.ring.End()
	w.reopen()
	w.wantNumbers("b1", 1, 3)
	if got := w.ring.End(); got != end {
		t.Errorf("the feed ends at %d; want %d", got, end)
	}
	if e := w.post("b1", "z"); e.Seq != 4 {
		t.Errorf("got number %d; want 4", e.Seq)
	}
	events, next, err := w.ring.Feed(end, 10)
	if err != nil || len(events) != 1 || events[0].Seq != 4 || next != end+1 {
		t.Errorf("the feed goes on with %v up to %d: %v", events, next, err)
	}
}

// A cut of the power leaves any part of the last record, or zeros in its place.
func TestATornEndIsLeftOut(t *testing.T) {
	w := newWorld(t)
	w.post("b1", "one")
	whole := w.read(w.segments("b1")[0])
	w.post("b1", "two")
	path := w.segments("b1")[0]
	both := w.read(path)
	for cut := range len(both) {
		kept := int64(0)
		if cut >= len(whole) {
			kept = 1
		}
		for _, torn := range [][]byte{both[:cut], append(bytes.Clone(both[:cut]), make([]byte, len(both)-cut)...)} {
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
			w.write(path, torn)
			w.reopen()
			w.wantNumbers("b1", 1, kept)
			if e := w.post("b1", "again"); e.Seq != kept+1 {
				t.Fatalf("cut at %d: number %d; want %d", cut, e.Seq, kept+1)
			}
			w.reopen()
			w.wantNumbers("b1", 1, kept+1)
		}
	}
}

func TestAChangedByteEndsWhatIsRead(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		w.post("b1", "abc")
	}
	path := w.segments("b1")[0]
	data := w.read(path)
	w.write(path, bytes.Replace(data, []byte("abc"), []byte("abd"), 1))
	w.reopen()
	if got := w.numbers("b1"); len(got) != 0 {
		t.Errorf("kept %v", got)
	}
}

func TestWhatLiesBeforeAGapGoes(t *testing.T) {
	w := newWorld(t)
	big := strings.Repeat("x", 15<<10)
	for range 40 {
		w.post("b1", big)
	}
	segments := w.segments("b1")
	if len(segments) < 3 {
		t.Fatalf("%d segments", len(segments))
	}
	w.write(segments[1], w.read(segments[1])[:20<<10])
	w.reopen()
	got := w.numbers("b1")
	if len(got) == 0 || got[0] == 1 || got[len(got)-1] != 40 {
		t.Fatalf("kept %v", got)
	}
	w.wantNumbers("b1", got[0], 40)
}

func TestTheDiskIsBounded(t *testing.T) {
	w := newWorld(t)
	big := strings.Repeat("x", 15<<10)
	for range 2 * store.RingBytes / len(big) {
		w.post("b1", big)
	}
	var size int
	for _, path := range w.segments("b1") {
		size += len(w.read(path))
	}
	if bound := store.RingBytes + 2*(256<<10); size > bound {
		t.Errorf("%d bytes on disk; at most %d", size, bound)
	}
	got := w.numbers("b1")
	w.reopen()
	w.wantNumbers("b1", got[0], got[len(got)-1])
}

func TestResetKeepsNumbersAndPlaces(t *testing.T) {
	w := newWorld(t)
	w.post("b1", "x")
	w.post("b1", "x")
	if err := w.ring.Reset("b1"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ring.Append("b1", wire.PostEvent{Type: "t"}, noon); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a box that was reset appends: %v", err)
	}
	w.reopen()
	if got := w.numbers("b1"); len(got) != 0 {
		t.Errorf("kept %v", got)
	}
	if w.ring.End() != 2 {
		t.Errorf("the feed ends at %d; want 2", w.ring.End())
	}
	if e := w.post("b1", "x"); e.Seq != 3 {
		t.Errorf("got number %d; want 3", e.Seq)
	}
}

func TestEventsOfABoxThatIsGoneAreRemoved(t *testing.T) {
	w := newWorld(t)
	w.post("b1", "x")
	r, err := ring.Open(w.dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.ResetOthers(); err != nil {
		t.Fatal(err)
	}
	if events, err := r.Events("b1", 0, 9); err != nil || len(events) != 0 {
		t.Errorf("kept %v, %v", events, err)
	}
	if data := w.read(w.segments("b1")[0]); bytes.Contains(data, []byte("boxId")) {
		t.Error("the event is still on disk")
	}
}

func TestAFormOfANewerVersionIsRefusedAndKept(t *testing.T) {
	w := newWorld(t)
	w.post("b1", "x")
	path := w.segments("b1")[0]
	data := bytes.Replace(w.read(path), []byte("AGBXEVT1"), []byte("AGBXEVT2"), 1)
	w.write(path, data)
	if _, err := ring.Open(w.dir, 0); !errors.Is(err, store.ErrNewerSchema) {
		t.Errorf("got error %v; want %v", err, store.ErrNewerSchema)
	}
	if !bytes.Equal(w.read(path), data) {
		t.Error("the file was changed")
	}
}

func TestAnIDIsNoPath(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"", ".", "..", "../b1", "a/b", "a\x00b", "é", strings.Repeat("a", 200)} {
		if w.ring.Admit(id, 0) == nil {
			t.Errorf("%q became a folder", id)
		}
	}
}

func (w *world) read(path string) []byte {
	w.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	return data
}

func (w *world) write(path string, data []byte) {
	w.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		w.Fatal(err)
	}
}
