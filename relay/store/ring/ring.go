package ring

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/madarco/agentbox/core/wire"
	"github.com/madarco/agentbox/relay/store"
)

// Ring is the events of all boxes. Open makes one; it is safe for concurrent
// use. One process at a time may have a folder open.
type Ring struct {
	dir string

	mu     sync.Mutex
	place  int64 // the highest in the feed that was ever given
	boxes  map[string]*box
	buf    []byte
	closed bool
}

// box is the ring of one box.
type box struct {
	dir      string
	admitted bool
	last     int64 // the highest number that was ever given
	place    int64 // the highest place in the feed that its files tell
	entries  []entry
	bytes    int64   // of the entries' records
	segments []int64 // their first numbers, in order
	file     *os.File
	size     int64 // of file
}

// entry is where a kept event lies. Numbers need no field: the last entry has
// the number last, and there is no gap.
type entry struct {
	place   int64
	segment int64
	at      int64
	size    int
}

// keep adds an entry and lets go what is over the bounds.
func (b *box) keep(e entry, number int64) {
	b.entries = append(b.entries, e)
	b.bytes += int64(e.size)
	b.last, b.place = number, e.place
	for len(b.entries) > store.RingSize || b.bytes > store.RingBytes {
		b.bytes -= int64(b.entries[0].size)
		b.entries = b.entries[1:]
	}
}

// Open reads the folder, which need not exist. place is a place in the feed
// that was given by other means before. The error wraps store.ErrNewerSchema
// for files of a newer version.
func Open(dir string, place int64) (*Ring, error) {
	r := &Ring{dir: dir, place: place, boxes: map[string]*box{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the events: %w", err)
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open the events: %w", err)
	}
	for _, f := range found {
		if !f.IsDir() || CheckID(f.Name()) != nil {
			continue
		}
		b, err := load(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, fmt.Errorf("open the events of box %q: %w", f.Name(), err)
		}
		r.boxes[f.Name()] = b
		r.place = max(r.place, b.place)
	}
	return r, nil
}

// maxID bounds the name of a box's folder.
const maxID = 128

// CheckID tells whether an id can become the name of a folder.
func CheckID(id string) error {
	bad := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	}
	if id == "" || len(id) > maxID || strings.ContainsFunc(id, bad) {
		return fmt.Errorf("%q can't be a box's id", id)
	}
	return nil
}

// Admit lets the box append. last is a number that was given by other means
// before.
func (r *Ring) Admit(id string, last int64) error {
	if err := CheckID(id); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.boxes[id]
	if b == nil {
		b = &box{dir: filepath.Join(r.dir, id)}
		r.boxes[id] = b
	}
	if last > b.last {
		b.entries, b.bytes, b.last = nil, 0, last
	}
	b.admitted = true
	return nil
}

// Reset removes the box's events; it may not append until it is admitted again.
func (r *Ring) Reset(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.boxes[id]
	if b == nil {
		return nil
	}
	b.admitted, b.entries, b.bytes = false, nil, 0
	err := b.begin(r.place)
	if err == nil {
		err = b.drop(b.last + 1)
	}
	b.leave()
	if err != nil {
		return fmt.Errorf("remove the events of box %s: %w", id, err)
	}
	return nil
}

// ResetOthers is Reset of every box that may not append: those that were
// forgotten just before the process was killed.
func (r *Ring) ResetOthers() error {
	r.mu.Lock()
	var ids []string
	for id, b := range r.boxes {
		if !b.admitted && len(b.entries) > 0 {
			ids = append(ids, id)
		}
	}
	r.mu.Unlock()
	var errs []error
	for _, id := range ids {
		errs = append(errs, r.Reset(id))
	}
	return errors.Join(errs...)
}

// begin starts the segment of the next event.
func (b *box) begin(place int64) error {
	b.leave()
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return err
	}
	first := b.last + 1
	f, err := os.OpenFile(filepath.Join(b.dir, segmentName(first)), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(mark(place)); err != nil {
		return errors.Join(err, f.Close())
	}
	b.file, b.size = f, int64(markSize)
	if !slices.Contains(b.segments, first) {
		b.segments = append(b.segments, first)
	}
	return nil
}

// leave ends the segment that is written to, if there is one.
func (b *box) leave() {
	if b.file != nil {
		_ = b.file.Close() // written through already
		b.file = nil
	}
}

// Append numbers the event and keeps it, as received at now. The payload is as
// store.CheckEvent returned it. Errors: store.ErrNotFound for a box that was not
// admitted, store.ErrClosed.
func (r *Ring) Append(id string, e wire.PostEvent, now time.Time) (wire.Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.boxes[id]
	switch {
	case r.closed:
		return wire.Event{}, store.ErrClosed
	case b == nil || !b.admitted:
		return wire.Event{}, store.ErrNotFound
	}
	ev := store.NewEvent(id, b.last+1, e, now)
	body, err := json.Marshal(ev)
	if err != nil {
		return wire.Event{}, err
	}
	if b.file == nil || b.size >= segmentBytes {
		if err := b.begin(r.place); err != nil {
			return wire.Event{}, err
		}
	}
	r.buf = frame(r.buf, ev.Seq, r.place+1, body)
	if _, err := b.file.Write(r.buf); err != nil {
		b.leave() // what was written of it is torn; the next one goes elsewhere
		return wire.Event{}, err
	}
	r.place++
	b.keep(entry{place: r.place, segment: b.segments[len(b.segments)-1], at: b.size, size: len(r.buf)}, ev.Seq)
	b.size += int64(len(r.buf))
	if oldest := b.entries[0].segment; b.segments[0] != oldest {
		_ = b.drop(oldest) // what stays is tried again with the next event
	}
	return ev, nil
}

// Events lists up to limit events of the box with numbers above since.
func (r *Ring) Events(id string, since int64, limit int) ([]wire.Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.boxes[id]
	if r.closed {
		return nil, store.ErrClosed
	}
	if b == nil || since >= b.last {
		return nil, nil
	}
	before := b.last - int64(len(b.entries)) // the number before the oldest kept
	rest := b.entries[max(0, since-before):]
	rest = rest[:min(max(0, limit), len(rest))]
	found := make([]lying, len(rest))
	for i, e := range rest {
		found[i] = lying{b.dir, e}
	}
	return read(found)
}

// Feed lists up to limit events of all boxes after the place, and the place of
// the last of them.
func (r *Ring) Feed(after int64, limit int) ([]wire.Event, int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, after, store.ErrClosed
	}
	if after < 0 || after > r.place {
		return nil, after, store.ErrNotFound
	}
	var found []lying
	for _, b := range r.boxes {
		i, _ := slices.BinarySearchFunc(b.entries, after+1, func(e entry, place int64) int { return int(e.place - place) })
		rest := b.entries[i:]
		for _, e := range rest[:min(max(0, limit), len(rest))] {
			found = append(found, lying{b.dir, e})
		}
	}
	slices.SortFunc(found, func(a, b lying) int { return int(a.place - b.place) })
	found = found[:min(max(0, limit), len(found))]
	events, err := read(found)
	if err == nil && len(found) > 0 {
		after = found[len(found)-1].place
	}
	return events, after, err
}

// End is the highest place in the feed.
func (r *Ring) End() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.place
}

// lying is an entry with the folder that it lies in.
type lying struct {
	dir string
	entry
}

// read reads entries, opening each segment once.
func read(entries []lying) ([]wire.Event, error) {
	open := map[string]*os.File{}
	defer func() {
		for _, f := range open {
			_ = f.Close()
		}
	}()
	events := make([]wire.Event, 0, len(entries))
	for _, e := range entries {
		path := filepath.Join(e.dir, segmentName(e.segment))
		f := open[path]
		if f == nil {
			var err error
			if f, err = os.Open(path); err != nil {
				return nil, err
			}
			open[path] = f
		}
		data := make([]byte, e.size)
		if _, err := f.ReadAt(data, e.at); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		r, ok := parse(data)
		if !ok {
			return nil, fmt.Errorf("read %s: the event at byte %d was changed", path, e.at)
		}
		var ev wire.Event
		if err := json.Unmarshal(r.body, &ev); err != nil {
			return nil, fmt.Errorf("read %s: the event at byte %d: %w", path, e.at, err)
		}
		events = append(events, ev)
	}
	return events, nil
}

// Close ends writing; nothing waits to be written.
func (r *Ring) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, b := range r.boxes {
		b.leave()
	}
	return nil
}
